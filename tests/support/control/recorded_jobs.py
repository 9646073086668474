"""In place of the jobs of state operations: what they were asked for, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stateward.contract.names import ENV_OPERATION
from stateward.contract.storage import read_json, write_json
from stateward.control.jobs import batch_job
from stateward.control.reconcile.observe import read_control
from stateward.project.layout import Layout
from stateward.project.settings import Settings


def spark_command(job: str, request_uri: str, **given: Any) -> list[str]:
    """The command of a job without Spark: the stand-in reads its last word."""
    settings: Settings = given["settings"]
    return batch_job.python_command(job, request_uri, settings)


class Jobs:
    """In place of the jobs: which were run, and in which state they found the stream.

    Args:
        layout: Where the documents are.
        stream: The stream.
        data: By verb, what its answer has for programs.
    """

    def __init__(self, layout: Layout, stream: str, data: Mapping[str, Any] | None = None) -> None:
        self.layout = layout
        self.stream = stream
        self.data = {"savepoint": {"savepoint": "S1"}, **(data or {})}
        self.ran: list[str] = []
        self.acts: dict[str, Callable[[], None]] = {}
        self.refusals: dict[str, str] = {}

    def run(self, command: list[str], variables: dict[str, str], log: Path, report: object) -> bool:
        request = read_json(command[-1])
        assert request is not None
        verb = request["verb"]
        self.ran.append(verb)
        if request["takes_lease"] and not request["dry_run"]:
            control = read_control(self.layout, self.stream)
            assert control is None or control.hold is not None or control.desired == "stopped"
            assert (read_json(self.layout.status_uri(self.stream)) or {}).get("state") != "running"
        assert variables[ENV_OPERATION] == request["operation"]
        state = "refused" if verb in self.refusals else "done"
        result = {
            "operation": request["operation"],
            "state": state,
            "message": self.refusals.get(verb, ""),
            "good": True,
            "lines": [f"{verb} is done"],
            "data": self.data.get(verb, {"changed": True}),
            "arguments": request["arguments"],
        }
        write_json(f"{request['folder_uri']}/result.json", result)
        self.acts.get(verb, lambda: None)()
        if state == "refused":
            raise batch_job.JobError(result["message"])
        return True

    def results(self, verb: str) -> list[dict[str, Any]]:
        folder = Path(self.layout.operations_uri.removeprefix("file://")) / self.stream
        return [json.loads(file.read_text()) for file in folder.glob(f"*-{verb}/result.json")]
