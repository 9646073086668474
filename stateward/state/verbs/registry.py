"""From a request to the function of its verb, and from what that returns to an answer.

A verb is one function here, in `looking_calls` or `moving_calls`, and one line in `CALLS`;
`stateward/control/jobs/verbs.py` says what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from stateward.contract import storage
from stateward.runtime.kafka.broker import Broker
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.code_version import code_version
from stateward.state.operation.context import Context
from stateward.state.savepoints.garbage_collection import clear
from stateward.state.savepoints.prune import Policy, prune
from stateward.state.savepoints.restore import Restore
from stateward.state.savepoints.savepoint import Origin, SavepointMade, left_by_earlier_try, make_savepoint
from stateward.state.savepoints.savepoint_catalog import Savepoint
from stateward.state.savepoints.verify import verify
from stateward.state.verbs.looking_calls import LOOKING_CALLS
from stateward.state.verbs.migrate import migrate_call
from stateward.state.verbs.moving_calls import advise_call, repartition_call
from stateward.state.verbs.seed import seed_call
from stateward.state.verbs.skip import skip_call
from stateward.state.verbs.split import split_call

_SHOWN_PROBLEMS = 5


def _savepoint(context: Context) -> Answer:
    request = context.request
    made = None
    if context.journal.plan is not None:
        made = left_by_earlier_try(context.shelf, request.stamp)
    elif not request.dry_run and request.stamp not in context.shelf.ids():
        context.journal.decide({"savepoint": request.stamp})
    made = made or _made(context)
    would = "would have" if request.dry_run else "has"
    return Answer(
        (
            f"Savepoint {made.savepoint} of {made.stream} {would} generation {made.generation} up to batch "
            f"{made.last_batch}: {made.files:,} files.",
            f"It {'would lie' if request.dry_run else 'lies'} in {made.uri}.",
        ),
        (Listing("Tables", ("table", "version"), list(made.tables.items())),),
        asdict(made),
    )


def _made(context: Context) -> SavepointMade:
    request = context.request
    return make_savepoint(
        request.config,
        context.generation,
        context.shelf,
        request.stamp,
        origin=_origin(context),
        reason=request.arguments["reason"],
        now=context.clock(),
        dry_run=request.dry_run,
        report=context.report,
        runs=context.runs,
    )


def _origin(context: Context) -> Origin:
    request = context.request
    return Origin(
        code=code_version(),
        yaml=request.yaml,
        # The YAML may have been changed since the driver wrote the state.
        configuration=storage.read_json(request.launched_uri) or request.document,
        state_version=getattr(context.job, "state_version", None),
    )


def _savepoints(context: Context) -> Answer:
    found = verify(context.shelf, None, context.report).savepoints
    good = sum(one.is_good for one in found)
    line = f"{context.stream} has {len(found)} savepoints, of which {good} are good."
    return Answer((line,), _listed(found), _as_data(found))


def _verify(context: Context) -> Answer:
    found = verify(context.shelf, context.request.arguments["savepoint"], context.report)
    broken = [one.savepoint for one in found.savepoints if not one.is_good]
    line = f"Broken: {', '.join(broken)}." if broken else "Every file is what it was."
    return Answer((line,), _listed(found.savepoints), _as_data(found.savepoints), found.all_good)


def _prune(context: Context) -> Answer:
    request, arguments = context.request, context.request.arguments
    # What was begun may need a savepoint still.
    context.generation.require_settled(context.stream)
    done = prune(
        context.shelf,
        Policy(arguments["keep"], timedelta(days=arguments["days"])),
        now=context.clock(),
        dry_run=request.dry_run,
        report=context.report,
    )
    cleared = clear(
        context.generation,
        request.operation,
        request.operations_uri,
        request.logs_uri,
        longest=timedelta(days=arguments["operations_days"]),
        keep=arguments["generations"],
        now=context.clock(),
        dry_run=request.dry_run,
        report=context.report,
    )
    would = "Would be removed" if request.dry_run else "Removed"
    gone = ", ".join(str(number) for number in cleared.generations)
    return Answer(
        (
            f"{would}: {', '.join(done.removed) or 'none'}.",
            f"Kept: {', '.join(done.kept) or 'none'}.",
            f"{would} of earlier generations: {gone or 'none'}.",
            f"{would} of old operations: {len(cleared.operations)}.",
        ),
        data={**asdict(done), **asdict(cleared)},
    )


def _restore(context: Context) -> Answer:
    request = context.request
    done = Restore(
        config=request.config,
        generation=context.generation,
        shelf=context.shelf,
        kafka=Broker(request.config.bootstrap_servers),
        raw_uri=request.raw_uri,
        operation=request.operation,
        journal=context.journal,
        clock=context.clock,
        report=context.report,
        check=context.check,
    ).run(request.arguments["savepoint"], dry_run=request.dry_run)
    lines = [
        f"{done.stream} {'would be' if request.dry_run else 'is'} back at savepoint {done.savepoint}, as "
        f"generation {done.generation} in {done.checkpoint}.",
        f"At its next start it reads {done.records:,} records again.",
    ]
    if done.finished is not None:
        lines.append(f"This finishes what operation {done.finished} had begun.")
    return Answer(
        (*lines, *done.notes),
        (Listing("Tables", ("table", "restored to version"), list(done.tables.items())),),
        asdict(done),
    )


def _listed(savepoints: Sequence[Savepoint]) -> tuple[Listing, ...]:
    columns = ("savepoint", "state", "generation", "batch", "files", "bytes", "reason")
    return (Listing("Savepoints", columns, [_row(one) for one in savepoints]),)


def _row(one: Savepoint) -> tuple[str | int | None, ...]:
    shown = "; ".join(one.problems[:_SHOWN_PROBLEMS])
    more = len(one.problems) - _SHOWN_PROBLEMS
    state = "good" if one.is_good else f"broken: {shown}" + (f"; and {more} more" if more > 0 else "")
    if (made := one.manifest) is None:
        return one.savepoint, state, None, None, None, None, None
    return one.savepoint, state, made.generation, made.last_batch, len(made.files), made.size, made.reason


def _as_data(savepoints: Sequence[Savepoint]) -> dict[str, Any]:
    return {
        "savepoints": [
            {
                "savepoint": one.savepoint,
                "uri": one.uri,
                "good": one.is_good,
                "problems": list(one.problems),
                "made_at": None if one.manifest is None else one.manifest.made_at,
            }
            for one in savepoints
        ]
    }


CALLS: dict[str, Callable[[Context], Answer]] = {
    "savepoint": _savepoint,
    "savepoints": _savepoints,
    "verify": _verify,
    "prune": _prune,
    "restore": _restore,
    "skip": skip_call,
    "repartition": repartition_call,
    "migrate": migrate_call,
    "seed": seed_call,
    "split": split_call,
    "advise": advise_call,
    **LOOKING_CALLS,
}

FINISHES_WHAT_IS_PENDING = frozenset({"restore", "split"})
"""Verbs that go on with an operation of theirs that did not end; all others wait for that."""
