"""What a verb works with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stateward.contract.names import ENV_MASK_SECRET
from stateward.contract.process_output import Report
from stateward.project.project import NoSuchStreamError, Project
from stateward.runtime.api.any_job import writing
from stateward.runtime.checkpoint.generations import Generation
from stateward.runtime.sink.fence import CheckLease
from stateward.state.errors import StateError
from stateward.state.inspection.masker import Masker, masker_of
from stateward.state.operation.journal import Journal
from stateward.state.operation.leased import take_over_all, unleased
from stateward.state.operation.request import Request
from stateward.state.savepoints.manifest import CHECKPOINT
from stateward.state.savepoints.replay_reach import Kafka
from stateward.state.savepoints.savepoint_catalog import SavepointCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Context:
    """What a verb works with.

    Attributes:
        request: The request.
        generation: The current generation of the stream.
        catalog: The savepoints of the stream.
        journal: The journal of this operation.
        report: Takes each step; raises when the lease is lost.
        clock: Returns the time, aware.
        spark: Returns the session; the first call creates it.
        kafka: Returns the cluster that the stream reads.
        runs: Whether the stream runs; True only in a dry run of a verb that takes the lease.
        check: Returns the epoch of the held lease; raises when the lease is lost.
    """

    request: Request
    generation: Generation
    catalog: SavepointCatalog
    journal: Journal
    report: Report
    clock: Callable[[], datetime]
    spark: Callable[[], SparkSession]
    kafka: Callable[[], Kafka]
    runs: bool = False
    check: CheckLease = unleased

    def take_over(self) -> None:
        """Let the tables of the stream refuse earlier lease holders, before a generation becomes current.

        Raises:
            LeaseLostError: The lease is lost.
        """
        take_over_all(self.request.config, self.check)

    @property
    def stream(self) -> str:
        """Its name."""
        return self.request.config.stream

    @property
    def job(self) -> Any:
        """Its declaration, with the tables that it writes: a `StreamJob`, `NativeJob` or `LandingJob`."""
        return writing(self.job_of(self.stream), self.request.config.tables)

    @property
    def masker(self) -> Masker:
        """Masks what is shown of its keys and states, unless the request is to show them."""
        return masker_of(self.job, shows_all=self.request.shows_all)

    @property
    def secret(self) -> str:
        """The installation's secret, which identifies forgotten keys.

        Raises:
            StateError: The process has none.
        """
        if found := os.environ.get(ENV_MASK_SECRET):
            return found
        raise StateError(
            f"stream {self.stream}: expected the installation's secret in {ENV_MASK_SECRET}, found none. The"
            " commands of `stateward state` and the DAG state_operations set it. Nothing was changed."
        )

    def job_of(self, stream: str) -> Any:
        """The declaration of any stream.

        Raises:
            StateError: There is none.
        """
        try:
            return Project.imported().declaration(stream)
        except NoSuchStreamError as error:
            raise StateError(str(error)) from error

    def checkpoint(self, savepoint: str | None) -> str:
        """The folder of a savepoint's checkpoint; without one that of the current generation.

        Raises:
            StateError: There is no such savepoint, or it is broken.
        """
        if savepoint is None:
            return self.generation.uri
        self.catalog.require_good(savepoint)
        return f"{self.catalog.folder(savepoint)}/{CHECKPOINT}"
