"""Two DAGs for operations on a stream's state, one of them read-only, so that each can be granted alone.

The form of each has a section for each verb.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import DAG, Param

from stateward.airflow.factories.operation_tasks import operation_tasks
from stateward.airflow.operators.state_operation import InspectStateOperator
from stateward.control.jobs.verb_field import Field, field_parameter
from stateward.control.jobs.verbs import CHANGING_DAG, LOOKING_DAG, VERBS, Verb
from stateward.project.settings import Settings
from stateward.project.spec import load_specs

_TYPES = {"text": "string", "number": "integer", "flag": "boolean", "stream": "string"}

_CHANGING = """### State operations

Copy, repartition, migrate or split a stream's state, or restore a savepoint. Choose the verb and the stream,
and fill in the section of that verb; the other sections are ignored. A *dry run* checks everything and
changes nothing. Read-only verbs are in the DAG `state_inspection`.

A verb that needs the stream stopped stops it: *drain*, then *operate*, *start* as it was before, and *watch*
until it has committed a batch. A repartition and a migration make a *savepoint* first, which the run restores
(*go_back*) if the stream does not commit a batch. A stream that was stopped before stays stopped. A dry run
does not stop it.

*outcome* has the result. The button *Result page* of *operate* opens the page. More in
docs/state-operations.md.

"""

_LOOKING = """### State inspection

Inspect a stream's state: its size, the state of a key and its history, the difference of two states, the
savepoints. Choose the verb and the stream, and fill in the section of that verb; the other sections are
ignored. Nothing is changed, and the stream keeps running. The button *Result page* of *operate* opens the
page. Keys and personal values are masked there unless *show keys* is on. More in docs/state-operations.md.

"""
_BY_DEFAULT = "inspect"
"""The default verb of both forms changes nothing."""

_LOOKS = [verb for verb in VERBS.values() if verb.only_looks]
_CHANGES = [verb for verb in VERBS.values() if not verb.only_looks]


def _parameter(verb: Verb, field: Field) -> Param:
    # A field that one verb requires stays empty when another verb is chosen.
    # Airflow's form refuses an empty text, unless it may be null.
    default = None if field.is_required or field.default == "" else field.default
    kind = _TYPES[field.kind]
    limits: dict[str, Any] = {} if field.minimum is None else {"minimum": field.minimum}
    return Param(
        default,
        type=["null", kind] if default is None else kind,
        title=field.name.replace("_", " ").capitalize(),
        description=f"{field.help}.",
        section=f"{verb.name}: {verb.summary}",
        **limits,
    )


def _form(verbs: list[Verb], streams: list[str], *, deprecated: Sequence[Verb] = ()) -> dict[str, Param]:
    named = {verb.name: f"{verb.name}: {verb.summary}" for verb in verbs}
    elsewhere = {verb.name: f"{verb.name}: use {verb.dag_id}" for verb in deprecated}
    form = {
        "verb": Param(
            _BY_DEFAULT,
            type="string",
            enum=[*named, *elsewhere],
            title="Verb",
            values_display={**named, **elsewhere},
        ),
        "stream": Param(streams[0], type="string", enum=streams, title="Stream"),
    }
    for verb in verbs:
        form |= {field_parameter(verb.name, field.name): _parameter(verb, field) for field in verb.fields}
    return form


_RUN = {
    "dry_run": Param(
        default=False,
        type="boolean",
        title="Dry run",
        description="Report what would happen, and change nothing.",
    ),
    "watch_s": Param(
        180,
        type="integer",
        minimum=10,
        title="Watch for, in seconds",
        description="Time in which the restarted stream has to commit a batch.",
    ),
}


def _listed(verbs: list[Verb]) -> str:
    return "\n".join(f"- `{verb.name}`: {verb.summary}" for verb in verbs)


def state_operation_dags() -> dict[str, DAG]:
    """Build the DAG whose verbs change a stream's state, and the read-only one."""
    streams = [spec.stream for spec in load_specs(Settings().streams)[0]] or [""]
    # Programs may call read-only verbs by the first DAG, once the only one, for one more release.
    form = {**_form(_CHANGES, streams, deprecated=_LOOKS), **_RUN}
    summary = "Copy, repartition, migrate or restore the state of a stream."
    with _dag(CHANGING_DAG, summary, _CHANGING + _listed(_CHANGES), form) as changing:
        operation_tasks()
    summary = "Inspect the state of a stream; nothing is changed."
    with _dag(LOOKING_DAG, summary, _LOOKING + _listed(_LOOKS), _form(_LOOKS, streams)) as looking:
        InspectStateOperator(task_id="operate", asks={"dry_run": False, "watch_s": 0}, retries=3)
    return {dag.dag_id: dag for dag in (changing, looking)}


def _dag(dag_id: str, description: str, documentation: str, form: dict[str, Param]) -> DAG:
    return DAG(
        dag_id=Settings().dag_id(dag_id),
        description=description,
        doc_md=documentation,
        schedule=None,
        catchup=False,
        # It has no schedule; other DAGs trigger it, and would fail if it were paused.
        is_paused_upon_creation=False,
        params=form,
        tags=["stateward", "state"],
    )
