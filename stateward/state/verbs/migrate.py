"""The verb ``migrate`` as an operation: a copy is made what the code wants, and then counts."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from stateward.runtime.api.key_step import key_chain, moves_keys
from stateward.runtime.api.state_step import MissingStepError
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint import generations
from stateward.state.compatibility.descriptor import describe, found_descriptor, joined, write_descriptor
from stateward.state.compatibility.verdict import judge
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.drained import require_drained
from stateward.state.operation.errors import StateError

if TYPE_CHECKING:
    from stateward.runtime.api.config import Config
    from stateward.state.migration.migration import Migration
    from stateward.state.migration.migration_survey import Survey

Descriptor = dict[str, Any]

# What a migration brings to what the code declares; all else of a descriptor stays what it was.
_PARTS = ("key", "state")


def migrate_call(context: Context) -> Answer:
    """Bring every key and state to what the code declares.

    Nothing refers to the next generation before the last act, one write.

    Raises:
        StateError: It cannot be done, or the proof has failed; the stream's state is as it was.
    """
    if (done := _done_by_earlier_try(context)) is not None:
        return done
    require_drained(context.stream, context.generation.uri, runs=context.runs)
    job, config = context.job, context.request.config
    found, now = found_descriptor(context.generation.uri), describe(job, config)
    if found is None:
        raise StateError(
            f"stream {context.stream}: expected a checkpoint with a committed batch, found none. There is no "
            "state: start the stream."
        )
    if not isinstance(job, StreamJob):
        raise StateError(
            f"stream {context.stream}: expected a stream of keyed logic, found one of kind {now['kind']}: "
            "what Spark's own operators keep cannot become another state. Begin a new checkpoint, and fill "
            "its tables with `stateward backfill`."
        )
    reasons = _reasons(found, now)
    require_enough(context.stream, found, now)
    if not reasons:
        line = f"{context.stream} has the keys, buckets and schema of the code already. Nothing was changed."
        return Answer((line,), data={"changed": False})
    migration = migration_of(context, job, config, found)
    if context.request.dry_run:
        return _would(context, reasons, migration.survey().masked(context.masker))
    return _do(context, reasons, migration, joined(without_keys_and_states(found), now))


def _reasons(found: Descriptor, now: Descriptor) -> list[str]:
    """What there is to do, in words."""
    reasons = []
    of, to = (part.get("key", {}).get("version", 1) for part in (found, now))
    if of < to and moves_keys(now["key"]["steps"], of, to):
        says = "; ".join(now["key"]["steps"][str(version)]["says"] for version in range(of, to))
        reasons.append(f"keys of version {of} become those of version {to}: {says}")
    state = found.get("state")
    if state is None:
        return reasons
    if state["buckets"] != now["state"]["buckets"]:
        reasons.append(f"{state['buckets']} buckets become {now['state']['buckets']}")
    version = now["state"]["version"]
    if olds := sorted(int(one) for one in state["schemas"] if int(one) != version):
        named = ", ".join(map(str, olds))
        reasons.append(f"states of version {named} become those of version {version}")
    return reasons


def require_enough(stream: str, found: Descriptor, now: Descriptor, *, is_split: bool = False) -> None:
    """Make sure that the stream starts on what a migration makes.

    Args:
        stream: The stream's name.
        found: Of the checkpoint.
        now: Of the code.
        is_split: Whether keys that are no longer the stream's are left out on the way.

    Raises:
        StateError: It would not.
    """
    of, to = (part.get("key", {}).get("version", 1) for part in (found, now))
    steps = set(now["key"]["steps"])
    can_move = all(str(version) in steps for version in range(of, to)) and of <= to
    done: Descriptor = {**found, **({"key": now["key"]} if can_move and of < to else {})}
    if "key" in done:
        only = (now if is_split else found).get("key", {}).get("only", [])
        done["key"] = {**done["key"], "only": only}
    if "state" in found:
        # The steps from one schema to another are judged as at a start; only the buckets become others.
        done["state"] = {**found["state"], "buckets": now["state"]["buckets"]}
    verdict = judge(done, now)
    if not verdict.allows_start:
        told = " | ".join(str(one) for one in verdict.findings if one.level == verdict.level)
        raise StateError(
            f"stream {stream}: the state would still not be for this code after a migration: {told}. Nothing "
            "was changed."
        )


def without_keys_and_states(found: Descriptor) -> Descriptor:
    """What stays of a descriptor when every key and state is written anew."""
    return {name: part for name, part in found.items() if name not in _PARTS}


def migration_of(context: Context, job: StreamJob, config: Config, found: Descriptor) -> Migration:
    """The migration of the stream's state to what a declaration wants.

    Args:
        context: Whose checkpoint is read.
        job: The stream's declaration, or that of a stream that takes some of its keys.
        config: That stream's configuration.
        found: Of the checkpoint.

    Raises:
        StateError: A step of keys is missing.
    """
    # A migration that has nothing to do does not pay for Spark.
    from stateward.state.migration.key_evaluator import rule_of
    from stateward.state.migration.key_migration import Rekeying
    from stateward.state.migration.migration import Migration

    stream = config.stream
    try:
        steps = key_chain(job.key_steps, found.get("key", {}).get("version", 1), job.key_version)
    except MissingStepError as error:
        raise StateError(f"stream {stream}: {error}. Nothing was changed.") from error
    how = Rekeying(stream, rule_of(job, config), steps, job.state_version, job.state_steps, job.only)
    return Migration(
        spark=context.spark(),
        stream=stream,
        source_uri=context.generation.uri,
        how=how,
        buckets=config.state_buckets,
        report=context.report,
    )


def _would(context: Context, reasons: list[str], survey: Survey) -> Answer:
    return Answer(
        (
            f"{context.stream} would be migrated, as generation {context.generation.following().number}: "
            f"{'; '.join(reasons)}.",
            _counted(survey, "would change", "would be merged"),
        ),
        (_examples(survey),),
        {"changed": False, **asdict(survey)},
    )


def _do(context: Context, reasons: list[str], migration: Migration, descriptor: Descriptor) -> Answer:
    following = context.generation.following()
    context.journal.decide({"generation": following.number, "reasons": reasons})
    done = migration.run(following.uri)
    survey = done.survey.masked(context.masker)
    write_descriptor(following.uri, descriptor)
    context.report("generation", f"{following.number} becomes the current one")
    context.take_over()
    generations.make_current(following, context.request.operation, context.clock())
    sums = [(bucket, one.keys, one.content) for bucket, one in sorted(done.buckets.items())]
    return Answer(
        (
            f"{context.stream} is migrated: {'; '.join(reasons)}. Generation {following.number} counts.",
            _counted(survey, "have changed", "were merged"),
            f"There are {done.keys_after:,} keys now, each as it was computed, and where it is looked for.",
            f"Generation {context.generation.number} is still in {context.generation.uri}.",
        ),
        (
            _examples(survey),
            Listing("Checksums, computed and found", ("bucket", "keys", "keys and states"), sums),
            Listing(
                "Steps",
                ("step", "seconds", "bytes written"),
                [(step.name, step.seconds, step.bytes_written) for step in done.steps],
            ),
        ),
        {"changed": True, "generation": following.number, **asdict(replace(done, survey=survey))},
    )


def _done_by_earlier_try(context: Context) -> Answer | None:
    """What is said again of a try that died after its last act; nobody else has been at the state since."""
    plan = context.journal.plan
    if plan is None or plan["generation"] != context.generation.number:
        return None
    line = (
        f"{context.stream} is migrated: {'; '.join(plan['reasons'])}. Generation {plan['generation']} "
        "counts; an earlier try has done it."
    )
    return Answer((line,), data={"changed": True, "generation": plan["generation"]})


def _counted(survey: Survey, changed: str, merged: str) -> str:
    line = (
        f"Of {survey.keys:,} keys {survey.changed_keys:,} {changed}, and {survey.changed_states:,} states "
        f"{changed}"
    )
    return f"{line}; {survey.merged:,} {merged} into another." if survey.merged else f"{line}."


def _examples(survey: Survey) -> Listing:
    rows = [(one.old, one.key, one.before, one.after) for one in survey.examples]
    return Listing("Examples", ("key before", "key after", "state before", "state after"), rows)
