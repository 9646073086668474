"""Timed state operations on a launch, each in its own process as `stateward state` starts it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stateward.contract.requests import REQUEST_VERSION
from stateward.control.jobs import batch_job
from stateward.control.jobs.operation_request import JOB
from stateward.control.jobs.verbs import arguments_of, verb_of
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.support.spark.launches import Launch

MASTER = "local[2]"


class OperationFailedError(RuntimeError):
    """A state operation was refused, failed, or found something to be wrong."""


@dataclass(frozen=True)
class Done:
    """The outcome of an operation.

    Attributes:
        verb: What it did.
        seconds: How long it took, the start of its process and of Spark included.
        began: When each step was first reported, seconds from the start of the operation.
        data: Its result, as programs read it.
    """

    verb: str
    seconds: float
    began: dict[str, float]
    data: dict[str, Any]


@dataclass
class Operations:
    """Runs operations on a launch's checkpoint; each prints a line.

    Attributes:
        launch: The installation.
        run_id: Run id of the driver whose configuration applies.
        done: The operations run, in order.
    """

    launch: Launch
    run_id: str
    done: list[Done] = field(default_factory=list)

    def run(self, verb: str, **given: Any) -> Done:
        """Carry out a verb.

        Raises:
            OperationFailedError: It failed, or reported problems.
        """
        name = self.launch.stream.name
        spec, settings = load_spec(name), Settings()
        operation = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{verb}-{len(self.done)}"
        folder = self.launch.folder / "operations" / operation
        folder.mkdir(parents=True)
        request = f"file://{folder}/request.json"
        (folder / "request.json").write_text(json.dumps(self._request(operation, verb, given)))
        if verb_of(verb).needs_spark:
            command = batch_job.spark_command(
                JOB,
                request,
                kind="state_operation",
                name=f"bench {verb}",
                spec=spec,
                settings=settings,
                master=MASTER,
            )
        else:
            command = batch_job.python_command(JOB, request, settings)
        began: dict[str, float] = {}
        begun = time.monotonic()

        def report(part: str, what: str) -> None:
            began.setdefault(part, round(time.monotonic() - begun, 2))

        try:
            good = batch_job.run(command, batch_job.environment(settings, name), folder / "log", report)
        except batch_job.JobError as error:
            raise OperationFailedError(f"{verb} {given}: {error}") from error
        result = json.loads((folder / "result.json").read_text())
        if not good:
            raise OperationFailedError(f"{verb} {given}: {result['lines']} {result['listings']}")
        self.done.append(Done(verb, round(time.monotonic() - begun, 1), began, result["data"]))
        return self.done[-1]

    def _request(self, operation: str, verb: str, given: dict[str, Any]) -> dict[str, Any]:
        launch, spec = self.launch, load_spec(self.launch.stream.name)
        # The driver's settings, not those of the benchmark.
        config = json.loads((launch.folder / f"{self.run_id}.config.json").read_text())
        return {
            "version": REQUEST_VERSION,
            "operation": operation,
            "verb": verb,
            "arguments": arguments_of(verb_of(verb), given),
            "dry_run": False,
            "takes_lease": verb_of(verb).takes_lease,
            "needs_spark": verb_of(verb).needs_spark,
            "config": {**config, "run_id": operation},
            "yaml": "",
            "launched_uri": launch.uri(f"{self.run_id}.config.json"),
            "savepoints_uri": launch.uri("savepoints"),
            "raw_uri": launch.uri("tables", "raw_events"),
            "folder_uri": launch.uri("operations", operation),
            "state_limits": spec.state.limits.model_dump(),
        }
