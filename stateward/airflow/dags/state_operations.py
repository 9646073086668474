"""Two DAGs for operations on a stream's state: to look and to change, so that each can be granted alone.

Each is a form with a section for each verb.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import DAG, Param

from stateward.airflow.dags.operation_tasks import operation_tasks
from stateward.airflow.operators.operation_params import field_parameter
from stateward.airflow.operators.state_operation import InspectStateOperator
from stateward.control.jobs.verbs import CHANGING_DAG, LOOKING_DAG, VERBS, Field, Verb
from stateward.project.settings import Settings
from stateward.project.spec import load_specs

_TYPES = {"text": "string", "number": "integer", "flag": "boolean", "stream": "string"}

_CHANGING = """### State operations

Copy a stream's state, repartition, migrate or divide it, or take the stream back to a savepoint. Choose the
verb and the stream, and fill in the section of that verb; the other sections do not count. With *dry run*
everything is checked and nothing is changed. Verbs that only look are in the DAG `state_inspection`.

What needs the stream stopped stops it: *drain*, then *operate*, *start* as it was before, and *watch* until
it has committed a batch. Before a repartition or a migration there is a *savepoint*, to which the run goes
back (*go_back*) if the stream does not come back. A stream that was stopped before stays stopped. A dry run
leaves it alone.

*outcome* says what became of it. The button *Result page* of *operate* opens the page. More in
docs/state-operations.md.

"""

_LOOKING = """### State inspection

Look into a stream's state: how large it is, what is kept of a key and why, whether two states are the same,
which savepoints there are. Choose the verb and the stream, and fill in the section of that verb; the other
sections do not count. Nothing is changed, and the stream runs on. The button *Result page* of *operate* opens
the page. Keys and personal values are masked there unless *show keys* is on. More in
docs/state-operations.md.

"""
_BY_DEFAULT = "inspect"
"""Of either form: what is triggered as it stands changes nothing."""

_LOOKS = [verb for verb in VERBS.values() if verb.only_looks]
_CHANGES = [verb for verb in VERBS.values() if not verb.only_looks]


def _parameter(verb: Verb, field: Field) -> Param:
    # What a verb cannot do without is still empty when another verb is chosen.
    # The form lets nobody go on with a text that is empty, unless it may be null.
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
        description="Say what would happen, and change nothing.",
    ),
    "watch_s": Param(
        180,
        type="integer",
        minimum=10,
        title="Watch for, in seconds",
        description="How long the stream has to commit a batch after it was started again.",
    ),
}


def _listed(verbs: list[Verb]) -> str:
    return "\n".join(f"- `{verb.name}`: {verb.summary}" for verb in verbs)


def state_operation_dags() -> dict[str, DAG]:
    """Build the DAG whose verbs change a stream's state, and the one whose verbs only look."""
    streams = [spec.stream for spec in load_specs(Settings().streams)[0]] or [""]
    # Programs that look by the first DAG, once the only one, may do so for one release more.
    form = {**_form(_CHANGES, streams, deprecated=_LOOKS), **_RUN}
    summary = "Copy, repartition, migrate or restore the state of a stream."
    with _dag(CHANGING_DAG, summary, _CHANGING + _listed(_CHANGES), form) as changing:
        operation_tasks()
    summary = "Look into the state of a stream; nothing is changed."
    with _dag(LOOKING_DAG, summary, _LOOKING + _listed(_LOOKS), _form(_LOOKS, streams)) as looking:
        InspectStateOperator(task_id="operate", asks={"dry_run": False, "watch_s": 0}, retries=3)
    return {dag.dag_id: dag for dag in (changing, looking)}


def _dag(dag_id: str, description: str, documentation: str, form: dict[str, Param]) -> DAG:
    return DAG(
        dag_id=dag_id,
        description=description,
        doc_md=documentation,
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        params=form,
        tags=["stateward", "state"],
    )
