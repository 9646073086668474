"""The platform under test: a separate installation with a few running streams."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from proof.chaos.disk import Disk, disk_at
from proof.chaos.feed import Feed
from proof.chaos.neighbours import MAX_AHEAD
from proof.chaos.wrong_clock import clocks_in
from stateward.contract.names import ENV_HOME
from stateward.contract.storage import CorruptDocumentError, read_json
from stateward.platform.parts.supervisord import PartState, Supervisor
from stateward.platform.processes import ManagedProcess, find_owned
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT
from stateward.project.spec import StreamSpec, load_specs
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream

_UP_S = 420.0
_READY_S = 240.0
# The run injects more failures than the default limit of five in a quarter of an hour.
_MAX_ATTEMPTS = 100_000
# Short, so that incidents end while others start.
_RESOLVE_AFTER_S = 30.0


@dataclass
class Platform:
    """An installation with some of the streams, and a disk of its own for its data.

    Attributes:
        installation: Its command line, settings and processes.
        streams: Names of the streams.
        disk: The disk of its data, if one could be mounted.
        cache: The disk of its state copies, if one could be mounted.
        clocks: Folder in which driver launches look for a wrong clock (`wrong_clock`).
        feeds: What is sent to the topics.
        runs: The deploying DAG run of each stream.
    """

    installation: Installation
    streams: tuple[str, ...]
    disk: Disk
    cache: Disk
    clocks: Path
    feeds: Sequence[Feed] = ()
    runs: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """Where its documents and tables lie."""
        return self.installation.layout

    @property
    def home(self) -> Path:
        """Its `STATEWARD_HOME`."""
        return self.installation.settings.home

    @property
    def specs(self) -> dict[str, StreamSpec]:
        """By stream its YAML."""
        return {spec.stream: spec for spec in load_specs(self.installation.settings.streams)[0]}

    def live(self, stream: str) -> LiveStream:
        """One of its streams, as its operator sees it."""
        return LiveStream(stream, self.installation)

    def status(self, stream: str) -> dict[str, Any]:
        """The last status of a stream's driver; empty while it cannot be read."""
        try:
            return read_json(self.layout.status_uri(stream)) or {}
        except (OSError, CorruptDocumentError):
            return {}

    def failures(self) -> dict[str, int]:
        """Number of restarts after a failure, by stream."""
        return {
            stream: int((read_json(self.layout.control_uri(stream)) or {}).get("failures") or 0)
            for stream in self.streams
        }

    def parts(self) -> dict[str, PartState]:
        """The parts as reported by the process supervisor; empty while it does not answer."""
        return Supervisor(self.layout).states()

    def processes(self) -> list[ManagedProcess]:
        """Every process of the installation."""
        return find_owned(self.home)

    def up(self) -> None:
        """Start all parts that are not running."""
        self.installation.must_run("up", timeout_s=_UP_S)

    def down(self) -> None:
        """Stop all of it."""
        self.installation.must_run("down", timeout_s=_UP_S)

    def wait_ready(self) -> None:
        """Wait until every part answers; start the supervisor if it is not running."""
        if not self.parts():
            self.up()
        self.installation.wait_ready(_READY_S)

    def deploy(self) -> None:
        """Start the streams by their DAGs, and wait until all of them run."""
        for stream in self.streams:
            self.runs[stream] = self.live(stream).trigger("run")
        for stream in self.streams:
            self.live(stream).wait_running(_READY_S)

    def keep_data(self) -> None:
        """Copy the data from the temporary disk, to diagnose a failure."""
        if self.disk.problem is None:
            # A running stream creates and removes files.
            with contextlib.suppress(OSError):
                shutil.copytree(self.disk.folder, self.home / "data-kept", dirs_exist_ok=True)

    def left_behind(self) -> list[str]:
        """Processes left after `down`: with the installation's mark, or its folder in the command line."""
        return [described for process in psutil.process_iter() if (described := self._trace(process))]

    def _trace(self, process: psutil.Process) -> str | None:
        # The command lines of this process and its parents contain the folder, too.
        if process.pid in {one.pid for one in (psutil.Process(), *psutil.Process().parents())}:
            return None
        with contextlib.suppress(psutil.Error, OSError):
            command = " ".join(process.cmdline())
            home = str(self.home)
            marked = process.environ().get(ENV_HOME) == home or f"{home}/" in command
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                return f"{process.pid}: {command[:200]}"
        return None


@contextlib.contextmanager
def platform_in(folder: Path, streams: Sequence[str]) -> Iterator[Platform]:
    """A platform that is up with these streams, none of them deployed, in a folder of its own."""
    home = folder / "home"
    installation = Installation.in_folder(
        home,
        streams=_streams_in(folder / "streams", streams),
        notifiers=_notifiers_in(folder, home / "alerts.jsonl"),
        resolve_after_s=_RESOLVE_AFTER_S,
    )
    clocks = folder / "clocks"
    with disk_at(home / "data") as disk, disk_at(home / "cache") as cache, clocks_in(clocks):
        platform = Platform(installation, tuple(streams), disk, cache, clocks)
        try:
            platform.up()
            yield platform
        except BaseException:
            platform.keep_data()
            raise
        finally:
            try:
                for one in (disk, cache):
                    one.free()
            finally:
                platform.down()


def _notifiers_in(folder: Path, messages: Path) -> Path:
    """Write a notifier configuration that appends incidents to a file, line by line."""
    path_of_class = "stateward.airflow.notifiers.json_lines.JsonLinesNotifier"
    file = folder / "notifiers.yaml"
    file.write_text(yaml.safe_dump([{"class": path_of_class, "kwargs": {"path": str(messages)}}]))
    return file


def _streams_in(folder: Path, streams: Sequence[str]) -> Path:
    """Write the YAML of these streams, without validations and without a limit of failures."""
    folder.mkdir(parents=True)
    for stream in streams:
        document = yaml.safe_load((CHECKOUT / "include" / "streams" / f"{stream}.yaml").read_text())
        document.pop("quality", None)
        document["restart"] = {"max_attempts": _MAX_ATTEMPTS}
        document["source"]["max_ahead"] = f"{MAX_AHEAD.seconds}s"
        (folder / f"{stream}.yaml").write_text(yaml.safe_dump(document))
    return folder
