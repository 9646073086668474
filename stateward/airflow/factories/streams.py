"""One Airflow DAG for each stream: deploy, then supervise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from itertools import groupby
from pathlib import Path

from airflow.sdk import DAG, Param

from stateward.airflow.operators.deploy_stream import DeployStreamOperator
from stateward.airflow.operators.remove_stream import RemoveStreamOperator
from stateward.airflow.operators.supervise_stream import SuperviseStreamOperator
from stateward.airflow.operators.upgrade_stream import UpgradeStreamOperator
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, StreamSpec, load_specs
from stateward.project.spec_problems import Problem

MAX_ACTIVE_RUNS = 16
"""A supervising run stays active for months, and `stop` has to run beside it."""

ACTIONS = {
    "run": "run: start the stream, unless it runs already",
    "restart": "restart: drain the driver and start a new one",
    "stop": "stop: drain the driver and leave the stream stopped until the next run",
    "suspend": "suspend: drain the driver and keep the stream stopped until it is resumed",
    "upgrade": "upgrade: make a savepoint, start the current code and YAML, watch, roll back on failure",
    "resume": "resume: start a stream that is suspended, or that its YAML declares stopped",
    "remove": "remove: delete the state and the documents of a stopped stream, as if it was never started",
}


def stream_dags() -> dict[str, DAG]:
    """Build the DAGs of all streams, by their ids.

    A stream whose YAML is invalid keeps its DAG, with the problem as its documentation: its tasks fail with
    the same message, and a deferred supervisor keeps watching.
    """
    specs, problems = load_specs(Settings().streams)
    dags = [_stream_dag(spec.stream, _documentation(spec), spec.owner, ["stream"]) for spec in specs]
    for file, found in groupby(problems, key=lambda problem: problem.file):
        stream = re.sub(r"[^a-zA-Z0-9_.-]", "_", Path(file).stem)
        dags.append(_stream_dag(stream, _complaint(file, found), "stateward", ["stream", "invalid-yaml"]))
    return {dag.dag_id: dag for dag in dags}


def require_valid_streams() -> None:
    """Raise while a YAML in include/streams is invalid.

    Raises:
        SpecError: With the problems of all files.
    """
    _, problems = load_specs(Settings().streams)
    if problems:
        raise SpecError(problems)


def _form() -> dict[str, Param]:
    action = Param(
        "run",
        type="string",
        enum=list(ACTIONS),
        title="Action",
        description="What to do with the stream.",
        values_display=ACTIONS,
    )
    reason = Param(
        None,
        type=["null", "string"],
        maxLength=500,
        title="Reason",
        description="Why, for people who look at the stream later. Required to suspend it, and to resume it"
        " against its YAML.",
    )
    watch_s = Param(
        300,
        type="integer",
        minimum=10,
        title="Watch for, in seconds",
        description="How long the stream has to be healthy after an upgrade.",
    )
    tables = Param(
        default=False,
        type="boolean",
        title="Tables too",
        description="Whether a removal deletes the stream's own tables.",
    )
    confirm = Param(
        None,
        type=["null", "string"],
        title="Confirm",
        description="The name of the stream, for its removal. Without it the task only lists what it would"
        " remove.",
    )
    return {"action": action, "reason": reason, "watch_s": watch_s, "tables": tables, "confirm": confirm}


def _stream_dag(stream: str, documentation: str, owner: str, tags: list[str]) -> DAG:
    with DAG(
        dag_id=Settings().dag_id(f"stream_{stream}"),
        description=f"Deploy and supervise the stream {stream}",
        doc_md=documentation,
        schedule=None,
        catchup=False,
        max_active_runs=MAX_ACTIVE_RUNS,
        params=_form(),
        tags=tags,
        default_args={"owner": owner},
    ) as dag:
        # No task has an execution_timeout: a stream runs until it is stopped.
        upgrade = UpgradeStreamOperator(task_id="upgrade", stream=stream)
        remove = RemoveStreamOperator(task_id="remove", stream=stream)
        deploy = DeployStreamOperator(
            task_id="deploy",
            stream=stream,
            retries=2,
            retry_delay=timedelta(seconds=5),
            trigger_rule="none_failed",
        )
        supervise = SuperviseStreamOperator(
            task_id="supervise",
            stream=stream,
            trigger_rule="none_failed",
            # A retry is for a killed worker; errors that persist fail without one.
            retries=1000,
            retry_delay=timedelta(seconds=5),
        )
        [upgrade, remove] >> deploy >> supervise
    return dag


def _documentation(spec: StreamSpec) -> str:
    topics = ", ".join(f"`{name}`" for name in spec.source.names)
    tables = ", ".join(f"`{name}`" for name in spec.all_tables)
    return f"""### {spec.stream}

{spec.description}

Reads {topics}, writes the tables {tables}. Configured in
`include/streams/{spec.stream}.yaml`, explained in `docs/streams/{spec.stream}.md`; when something is wrong,
`docs/runbook.md`.

**Trigger** this DAG with the action `run`, `restart`, `stop`, `suspend`, `resume`, `upgrade` or `remove`. The
task *deploy* carries it out (*upgrade* does so by a run of `state_operations`, and *remove* deletes what a
stopped stream has left, if `confirm` is its name); *supervise* then watches,
deferred, and restarts the driver after a crash. The driver does not depend on these tasks: only the actions
`stop` and `suspend` end it.
"""


def _complaint(file: str, problems: Iterable[Problem]) -> str:
    lines = "\n".join(f"- {problem}" for problem in problems)
    return f"""### This stream's YAML is invalid

Correct `{file}` before you deploy the stream. A running driver is not touched.

{lines}
"""
