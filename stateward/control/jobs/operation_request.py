"""The request that `stateward/state/job.py` reads, and the command that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from stateward.contract.measures import OF_INSPECTION
from stateward.contract.names import RAW_EVENTS, STATE_EXPORTS
from stateward.contract.reading import InvalidDocumentError, as_json
from stateward.contract.requests import CountedFailures, OperationRequest, TracePlaces
from stateward.contract.storage import delete, list_names, local_path, read_json, write_json
from stateward.control.jobs import batch_job
from stateward.control.jobs.verb_field import Value
from stateward.control.jobs.verbs import CHANGING_DAG, LOOKING_DAG, VERBS, Verb, arguments_of
from stateward.control.launchers.launch import driver_config
from stateward.control.reconcile.observe import measure_limits, read_control
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_spec, load_specs
from stateward.rendering import page_address

JOB = "state"
_NEWEST = 100
# After any ISO 8601 time.
_NOT_YET = "~"


@dataclass(frozen=True)
class Operation:
    """One run of a verb, written down and not begun.

    Attributes:
        id: Its name, `<UTC stamp>-<verb>`.
        folder_uri: Its folder.
        log: What the job says, beside its steps.
        verb: What it does.
    """

    id: str
    folder_uri: str
    log: Path
    verb: Verb

    @property
    def request_uri(self) -> str:
        """The job's one argument."""
        return f"{self.folder_uri}/request.json"

    @property
    def page_uri(self) -> str:
        """Its result as a page."""
        return f"{self.folder_uri}/index.html"

    @property
    def page(self) -> str:
        """The page's address below Airflow's base URL."""
        *_, stream, operation = self.folder_uri.split("/")
        return page_address.operation(stream, operation)

    def result(self) -> dict[str, Any] | None:
        """What came of it; None before it has ended."""
        return read_json(f"{self.folder_uri}/result.json")

    def forget_result(self) -> None:
        """Remove what came of an earlier try, so that it is not taken for what came of the next one."""
        delete(f"{self.folder_uri}/result.json")

    def command(self, spec: StreamSpec, settings: Settings, master: str) -> list[str]:
        """Return the command that carries it out.

        Raises:
            LaunchError: It needs Spark, and there are no JARs of Spark, or what is declared is not valid.
        """
        if not self.verb.needs_spark:
            return batch_job.python_command(JOB, self.request_uri, settings)
        name = f"state {self.verb.name} {spec.stream}"
        return batch_job.spark_command(
            JOB,
            self.request_uri,
            kind="state_operation",
            name=name,
            spec=spec,
            settings=settings,
            master=master,
        )


def prepare(
    verb: Verb,
    spec: StreamSpec,
    settings: Settings,
    given: Mapping[str, Any],
    *,
    now: datetime,
    dry_run: bool = False,
    asked_by: str = "",
) -> Operation:
    """Write down the request of an operation.

    Asked for again by the same one at the same time it is the same operation, with what is in its journal.

    Args:
        verb: What is to be done.
        spec: The stream.
        settings: Where everything is.
        given: The verb's fields.
        now: The time, aware; it names the operation.
        dry_run: Whether only to say what would happen.
        asked_by: Who asks, if it may ask again after it has died.

    Raises:
        VerbError: A field is missing, unknown, or of another type.
        SpecError: A field names a stream whose YAML is missing or not sound.
    """
    arguments = arguments_of(verb, given)
    other = other_stream(verb, arguments, settings)
    layout = Layout.of(settings)
    operation = _first_of(layout, verb, spec.stream, now, asked_by)[0]
    arguments = _referred(verb, arguments, operation)
    secrets = tuple(field.name for field in verb.fields if field.is_secret)
    request = OperationRequest(
        operation=operation.id,
        asked_by=asked_by,
        verb=verb.name,
        arguments=arguments,
        dry_run=dry_run,
        takes_lease=verb.takes_lease,
        needs_spark=verb.needs_spark,
        config=driver_config(spec, settings, operation.id),
        other=None if other is None else driver_config(other, settings, operation.id),
        yaml=_yaml(spec.stream, settings),
        launched_uri=layout.config_uri(spec.stream),
        savepoints_uri=layout.savepoints_uri(spec.stream),
        raw_uri=layout.table_uri(RAW_EVENTS),
        exports_uri=layout.table_uri(STATE_EXPORTS),
        folder_uri=operation.folder_uri,
        operations_uri=layout.operation_uri(spec.stream, "").rstrip("/"),
        logs_uri=f"file://{operation.log.parent}",
        personal_arguments=tuple(field.name for field in verb.fields if field.is_personal),
        seed_roots=settings.roots_of_seeds,
        state_limits=spec.state.limits.model_dump(),
        measure_limits=_measure_limits(spec),
        failures=_failures(layout, spec.stream),
        partition_bytes=spec.state_care.limits.partition_bytes,
        day_s=spec.state_care.day.total_seconds(),
        secrets=secrets,
        places=trace_places(spec, settings) if secrets else None,
    )
    write_json(operation.request_uri, as_json(request))
    operation.log.parent.mkdir(parents=True, exist_ok=True)
    return operation


def _referred(verb: Verb, arguments: Mapping[str, Value], operation: Operation) -> dict[str, Value]:
    """The arguments with a reference in place of each that is erased in the end.

    The value is in a file of its own beside the request. One that has ended has none any more, and gets none.
    """
    found = dict(arguments)
    result = operation.result()
    has_ended = result is not None and result["state"] == "done"
    for field in verb.fields:
        if field.is_secret:
            name = f"{field.name}.secret.json"
            if not has_ended:
                uri = f"{operation.folder_uri}/{name}"
                write_json(uri, {"value": found[field.name]})
                if (path := local_path(uri)) is not None:
                    Path(path).chmod(0o600)
            found[field.name] = name
    return found


def trace_places(spec: StreamSpec, settings: Settings) -> TracePlaces:
    """Where a key of a stream may be beside its checkpoints, savepoints and tables."""
    layout, stream = Layout.of(settings), spec.stream
    topics = set(spec.source.names)
    logs = layout.airflow_home / "logs"
    return TracePlaces(
        tables_uri=layout.tables_uri,
        texts=(
            layout.quality_uri,
            f"file://{layout.driver_log_dir(stream)}",
            f"file://{layout.operation_log(stream, '').parent}",
            *(f"file://{logs / f'dag_id={settings.dag_id(dag)}'}" for dag in (CHANGING_DAG, LOOKING_DAG)),
        ),
        rebuilt=(
            layout.reconciliation_uri(stream),
            f"file://{layout.reconciliation_log(stream)}",
            f"file://{layout.backfill_dir(stream)}",
        ),
        others=tuple(
            (layout.checkpoint_uri(other.stream), layout.lease_uri(other.stream))
            for other in load_specs(settings.streams)[0]
            if other.stream != stream and topics.intersection(other.source.names)
        ),
    )


def other_stream(verb: Verb, given: Mapping[str, Any], settings: Settings) -> StreamSpec | None:
    """Return the stream that a field of the verb names, if it has such a field.

    Raises:
        SpecError: Its YAML is missing or not sound.
    """
    named = [given.get(field.name) for field in verb.fields if field.kind == "stream"]
    return load_spec(str(named[0]), settings.streams) if named and named[0] else None


def find(verb: Verb, stream: str, settings: Settings, *, now: datetime, asked_by: str) -> Operation | None:
    """Return what `prepare` has written down, if it has."""
    operation, is_written = _first_of(Layout.of(settings), verb, stream, now, asked_by)
    return operation if is_written else None


def operations_of_run(stream: str, settings: Settings, asked_by: str) -> list[Operation]:
    """Return the operations of a DAG run, of the newest hundred of the stream, the oldest first.

    Args:
        stream: The stream.
        settings: Where everything is.
        asked_by: The run, `<dag id>/<run id>`.
    """
    layout = Layout.of(settings)
    found = []
    for name in sorted(list_names(layout.operation_uri(stream, "")))[-_NEWEST:]:
        verb = VERBS.get(name.partition("-")[2].rstrip("-0123456789"))
        if verb is None:
            continue
        operation = _operation(layout, stream, name, verb)
        if (read_json(operation.request_uri) or {}).get("asked_by") == asked_by:
            found.append(operation)
    return sorted(found, key=_began)


def _began(operation: Operation) -> str:
    """When it was begun, for an order; their names do not tell, which all have the second of the run's start.

    One that has not ended comes last.
    """
    result = operation.result()
    return _NOT_YET if result is None else str(result.get("began_at", ""))


def _operation(layout: Layout, stream: str, name: str, verb: Verb) -> Operation:
    return Operation(name, layout.operation_uri(stream, name), layout.operation_log(stream, name), verb)


def _first_of(
    layout: Layout, verb: Verb, stream: str, now: datetime, asked_by: str
) -> tuple[Operation, bool]:
    """The operation of that second that is the asker's own, and True; else the first name that is free."""
    base = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{verb.name}"
    for tries in count(1):
        name = base if tries == 1 else f"{base}-{tries}"
        operation = _operation(layout, stream, name, verb)
        written = read_json(operation.request_uri)
        if written is None or (asked_by and written.get("asked_by") == asked_by):
            return operation, written is not None
    raise AssertionError("unreachable: the numbers do not end")


def _measure_limits(spec: StreamSpec) -> dict[str, dict[str, float | None]]:
    """Return the limits of what an inspection measures, as a running stream is judged by them."""
    limits = measure_limits(spec.health)
    return {name: {"warn": limits[name].warn, "critical": limits[name].critical} for name in OF_INSPECTION}


def _failures(layout: Layout, stream: str) -> CountedFailures | None:
    """How often the stream's driver was started again after a failure, as far as it is on record."""
    try:
        control = read_control(layout, stream)
    except InvalidDocumentError:
        # Whoever acts on it says so; a look at the state does without.
        return None
    if control is None or control.failures_since is None:
        return None
    return CountedFailures(control.failures, control.failures_since)


def _yaml(stream: str, settings: Settings) -> str:
    return (settings.streams / f"{stream}.yaml").read_text(encoding="utf-8")
