"""The verbs that only look at a state: from a request to their functions, and to an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from stateward.runtime.api.stream_job import StreamJob
from stateward.state.compatibility.start import judge_start
from stateward.state.inspection.sizes import SizeLimits
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.errors import StateError
from stateward.state.partitions.checkpoint_interval import mean_time_between

if TYPE_CHECKING:
    from stateward.state.inspection.comparison import Comparison

_SHOWN_CHANGES = 20
_EXAMPLES = 3
# Of a chunk of a log, which may hold the states of a thousand keys, nobody reads more.
_LONGEST = 120


def _inspect(context: Context) -> Answer:
    # Verbs that need no Spark do not pay for its import.
    from stateward.state.inspection.documents import inspection_document
    from stateward.state.pages.reading_pages import inspection_page
    from stateward.state.verbs.inspect import inspect

    arguments = context.request.arguments
    mtbf_ms, mtbf_from = _failures(context)
    found = inspect(
        context.spark(),
        context.checkpoint(arguments["savepoint"]),
        context.stream,
        job=context.job,
        config=context.request.config,
        batch_id=arguments["batch"],
        limits=SizeLimits(**context.request.state_limits),
        mtbf_ms=mtbf_ms,
        mtbf_from=mtbf_from,
        show_keys=arguments["show_keys"],
        report=context.report,
    )
    size = found.size
    rows = [
        (variable.operator, variable.name, variable.rows, variable.key_bytes, variable.value_bytes)
        for variable in found.variables
    ]
    return Answer(
        (
            f"{context.stream} as of batch {found.batch_id}: {size.keys:,} keys of {size.mean_key_bytes:.0f} "
            f"bytes with {size.mean_value_bytes:.0f} bytes of state, {size.disk_bytes:,} bytes on disk.",
            *(f"Bound reached, {one.name}: {one.cost}." for one in found.bounds if one.reached),
            *found.notes,
        ),
        (Listing("Variables", ("operator", "variable", "rows", "key bytes", "value bytes"), rows),),
        inspection_document(found),
        whole_page=inspection_page(found),
    )


def _failures(context: Context) -> tuple[int | None, str]:
    """The mean time between failures by what the control plane has on record, and what that rests on."""
    found = context.request.failures
    if found is None:
        return None, "assumed: no restarts are on record"
    since_ms = int(found.since.timestamp() * 1000)
    return mean_time_between(found.count, since_ms, int(context.clock().timestamp() * 1000))


def _explain(context: Context) -> Answer:
    from stateward.rendering.human_units import format_timestamp
    from stateward.state.inspection.documents import explanation_document
    from stateward.state.pages.reading_pages import explanation_page
    from stateward.state.verbs.explain import explain

    arguments = context.request.arguments
    found = context.masker.explanation(
        explain(
            context.spark(),
            context.checkpoint(arguments["savepoint"]),
            context.stream,
            arguments["key"],
            job=context.job,
            config=context.request.config,
            batch_id=arguments["batch"],
            report=context.report,
        )
    )
    has = "has a state" if found.entries else "has no state"
    history = [
        (one.batch_id, format_timestamp(one.planned_ms), one.what) for one in found.history[-_SHOWN_CHANGES:]
    ]
    return Answer(
        (f"{context.stream}: key {found.key} {has} as of batch {found.batch_id}.", *found.notes),
        (Listing("What became of it", ("batch", "planned at", "what"), history),),
        explanation_document(found),
        whole_page=explanation_page(found),
    )


def _compare(context: Context) -> Answer:
    from stateward.state.inspection.comparison import State
    from stateward.state.verbs.compare import compare

    arguments = context.request.arguments
    if arguments["left"] == arguments["right"]:
        raise StateError(
            f"stream {context.stream}: expected two states to compare, found one; name another savepoint"
        )
    left, right = (State(context.checkpoint(arguments[side])) for side in ("left", "right"))
    found = compare(
        context.spark(),
        left,
        right,
        context.report,
        by="keys" if arguments["by_key"] else "entries",
        masker=context.masker,
    )
    equal = found.equal
    names = [arguments[side] or "the current state" for side in ("left", "right")]
    lines = [f"{names[0]} and {names[1]} are {'equal' if equal else 'different'}."]
    if not equal and not arguments["by_key"] and isinstance(context.job, StreamJob):
        lines.append("Entries are compared as Spark keeps them; by key it is said which states differ.")
    return Answer(tuple(lines), _differences(found), asdict(found), is_good=equal)


def _differences(found: Comparison) -> tuple[Listing, ...]:
    counts = [(one.variable, one.only_left, one.only_right, one.changed) for one in found.differences]
    examples = [
        (one.variable, *(_beginning(text) for text in (sample.key, sample.left, sample.right)))
        for one in found.differences
        for sample in one.samples[:_EXAMPLES]
    ]
    return (
        Listing("Differences", ("variable", "only left", "only right", "changed"), counts),
        Listing("Such as", ("variable", "key", "left", "right"), examples),
    )


def _beginning(text: str | None) -> str:
    if text is None:
        return "not there"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _upgrade(context: Context) -> Answer:
    """What is to be started is judged on the state that is to be taken over; the starting is the DAG's."""
    answer = _judged(context, context.generation.uri)
    changes = context.changed_settings()
    said = f"Settings that change: {', '.join(name for name, *_ in changes)}." if changes else ""
    return Answer(
        (*answer.lines, *filter(None, [said])),
        (*answer.listings, Listing("Settings", ("setting", "before", "now"), changes)),
        # Where it may not start nothing has changed, and there is nothing to take back.
        {**answer.data, "changed": answer.is_good},
        is_good=answer.is_good,
    )


def _verdict(context: Context) -> Answer:
    return _judged(context, context.checkpoint(context.request.arguments["savepoint"]))


def _judged(context: Context, uri: str) -> Answer:
    verdict = judge_start(context.job, context.request.config, uri)
    rows = [
        (str(one.level), one.what, one.before, one.now, one.consequence, "; or ".join(one.ways_out))
        for one in verdict.findings
    ]
    may = "may" if verdict.allows_start else "may not"
    return Answer(
        (f"{context.stream}: {verdict.level}. The code and YAML of now {may} run on this state.",),
        (Listing("Findings", ("verdict", "what", "before", "now", "consequence", "ways out"), rows),),
        verdict.as_json(),
        is_good=verdict.allows_start,
    )


LOOKING_CALLS: dict[str, Callable[[Context], Answer]] = {
    "inspect": _inspect,
    "explain": _explain,
    "compare": _compare,
    "upgrade": _upgrade,
    "verdict": _verdict,
}
