"""Layout: the one place that knows where every file and table lives (see docs/architecture.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stateward.contract.names import FORGOTTEN
from stateward.project.settings import Settings


@dataclass(frozen=True)
class Layout:
    """Paths under `STATEWARD_HOME` (this machine) and URIs under `STATEWARD_DATA` (storage all parts see).

    Attributes:
        home: absolute folder of this installation.
        data: URI without a trailing slash.
        savepoints: Where savepoints are kept, likewise; below `data` if it is empty.
    """

    home: Path
    data: str
    savepoints: str = ""

    @classmethod
    def of(cls, settings: Settings | None = None) -> Layout:
        """Return the layout of `settings`, by default those of the environment."""
        settings = settings or Settings()
        return cls(settings.home, settings.data, settings.savepoints or "")

    # Storage that Airflow and Spark both see: URIs.

    @property
    def tables_uri(self) -> str:
        """URI of the folder of all Delta tables."""
        return f"{self.data}/tables"

    def table_uri(self, name: str) -> str:
        """Return the URI of the Delta table `name`."""
        return f"{self.tables_uri}/{name}"

    def checkpoint_uri(self, stream: str) -> str:
        """Return the URI of the folder with the stream's checkpoints, one for each generation."""
        return f"{self.data}/checkpoints/{stream}"

    @property
    def savepoints_root_uri(self) -> str:
        """URI of the folder of all streams' savepoints."""
        return self.savepoints or f"{self.data}/savepoints"

    def savepoints_uri(self, stream: str) -> str:
        """Return the URI of the folder with the stream's savepoints."""
        return f"{self.savepoints_root_uri}/{stream}"

    @property
    def operations_uri(self) -> str:
        """URI of the folder of all state operations."""
        return f"{self.data}/operations"

    def operation_uri(self, stream: str, operation: str) -> str:
        """Return the URI of the folder of one state operation: request, journal, result and page."""
        return f"{self.operations_uri}/{stream}/{operation}"

    def lease_uri(self, stream: str) -> str:
        """Return the URI of the Delta table that says who may write the stream's checkpoint."""
        return f"{self.data}/leases/{stream}"

    def status_uri(self, stream: str) -> str:
        """Return the URI of the JSON file the driver writes: what is."""
        return f"{self.data}/status/{stream}.json"

    def history_uri(self, stream: str) -> str:
        """Return the URI of the file in which drivers keep the stream's last day, a line a minute."""
        return f"{self.data}/status/{stream}.history.jsonl"

    def control_uri(self, stream: str) -> str:
        """Return the URI of the JSON file the control plane writes: what should be."""
        return f"{self.data}/control/{stream}.json"

    def config_uri(self, stream: str) -> str:
        """Return the URI of the resolved configuration a driver is started with."""
        return f"{self.data}/control/{stream}.config.json"

    def reconciliation_uri(self, stream: str) -> str:
        """Return the URI of the folder of the stream's last reconciliation: tables, differences, report."""
        return f"{self.data}/reconciliation/{stream}"

    @property
    def releases_uri(self) -> str:
        """URI of the folder with the releases that drivers were started with, for all hosts."""
        return f"{self.data}/releases"

    @property
    def forgotten_uri(self) -> str:
        """URI of the folder with the register of forgotten keys."""
        return f"{self.data}/{FORGOTTEN}"

    @property
    def quality_uri(self) -> str:
        """URI of the folder with everything Great Expectations writes."""
        return f"{self.data}/quality"

    @property
    def data_docs_uri(self) -> str:
        """URI of the Data Docs folder (static HTML)."""
        return f"{self.data}/quality/docs"

    # This machine: paths.

    @property
    def kafka_dir(self) -> Path:
        """Folder with the embedded broker's log segments and configuration."""
        return self.home / "kafka"

    @property
    def airflow_home(self) -> Path:
        """AIRFLOW_HOME of the embedded Airflow."""
        return self.home / "airflow"

    @property
    def supervisor_dir(self) -> Path:
        """Folder with the process supervisor's configuration, socket and the logs of the parts."""
        return self.home / "supervisor"

    def part_log(self, part: str) -> Path:
        """Return the log file of one supervised part."""
        return self.supervisor_dir / "logs" / f"{part}.log"

    def driver_log_dir(self, stream: str) -> Path:
        """Return the folder with one log file per launch of the stream's driver."""
        return self.home / "drivers" / stream

    @property
    def releases_dir(self) -> Path:
        """Folder with the code and the YAML of drivers that were started here."""
        return self.home / "releases"

    @property
    def py_files_dir(self) -> Path:
        """Folder with the code of jobs, as a cluster's executors are sent it; no stream has this name."""
        return self.home / "cache" / "py-files"

    def backfill_dir(self, stream: str) -> Path:
        """Return the folder with what a recomputation of the stream writes: tables, report and log."""
        return self.home / "backfill" / stream

    def reconciliation_log(self, stream: str) -> Path:
        """Return the log file of the stream's last reconciliation."""
        return self.home / "reconciliation" / f"{stream}.log"

    def operation_log(self, stream: str, operation: str) -> Path:
        """Return the log file of one state operation."""
        return self.home / "operations" / stream / f"{operation}.log"

    def cache_dir(self, stream: str) -> Path:
        """Return the folder in which the stream's driver caches state; what is in it can be rebuilt."""
        return self.home / "cache" / stream
