"""One DAG for every operation on a stream's state: a form with a section for each verb."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param

from include.operators.asked import field_parameter
from include.operators.operation_tasks import operation_tasks
from include.settings import Settings
from include.spec import load_specs
from include.state.verbs import VERBS, Field, Verb

_TYPES = {"text": "string", "number": "integer", "flag": "boolean", "stream": "string"}

_DOC = """### State operations

Look into a stream's state, compare, copy, repartition, migrate or divide it, or take the stream back to a
savepoint. Choose the verb and the stream, and fill in the section of that verb; the other sections do not
count. With *dry run* everything is checked and nothing is changed.

What needs the stream stopped stops it: *drain*, then *operate*, *start* as it was before, and *watch* until
it has committed a batch. Before a repartition or a migration there is a *savepoint*, to which the run goes
back (*go_back*) if the stream does not come back. A stream that was stopped before stays stopped. A dry run,
and verbs that only look, leave it alone.

*outcome* says what became of it. The button *Result page* of *operate* opens the page. More in
docs/state-operations.md.

"""


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


def _form(streams: list[str]) -> dict[str, Param]:
    form = {
        "verb": Param(
            "inspect",
            type="string",
            enum=list(VERBS),
            title="Verb",
            values_display={name: f"{name}: {verb.summary}" for name, verb in VERBS.items()},
        ),
        "stream": Param(streams[0], type="string", enum=streams, title="Stream"),
        "dry_run": Param(
            default=False,
            type="boolean",
            title="Dry run",
            description="Say what would happen, and change nothing. Verbs that only look take no notice.",
        ),
        "watch_s": Param(
            180,
            type="integer",
            minimum=10,
            title="Watch for, in seconds",
            description="How long the stream has to commit a batch after it was started again.",
        ),
    }
    for verb in VERBS.values():
        form |= {field_parameter(verb.name, field.name): _parameter(verb, field) for field in verb.fields}
    return form


with DAG(
    dag_id="state_operations",
    description="Look into, copy, repartition or restore the state of a stream.",
    doc_md=_DOC + "\n".join(f"- `{verb.name}`: {verb.summary}" for verb in VERBS.values()),
    schedule=None,
    catchup=False,
    is_paused_upon_creation=False,
    params=_form([spec.stream for spec in load_specs(Settings().streams)[0]] or [""]),
    tags=["stateward", "state"],
):
    operation_tasks()
