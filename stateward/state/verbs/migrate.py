"""The verb ``migrate``: every key and state of a stream becomes what the code declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from msgspec import structs

from stateward.runtime.api.config import Config
from stateward.runtime.api.key_step import key_chain, moves_keys
from stateward.runtime.api.state_step import MissingStepError
from stateward.runtime.api.stream_job import StreamJob
from stateward.state.compatibility.descriptor import (
    combined,
    declared_buckets,
    describe,
    read_descriptor,
    with_declared_buckets,
    write_descriptor,
)
from stateward.state.compatibility.verdict import judge
from stateward.state.errors import StateError
from stateward.state.migration.key_migration import KeyMigration
from stateward.state.migration.migration import Migration
from stateward.state.migration.migration_survey import Survey
from stateward.state.operation.answer import Answer, Listing, steps_listing
from stateward.state.operation.context import Context
from stateward.state.operation.drained import require_drained
from stateward.state.operation.verb import Earlier, NextGeneration
from stateward.state.partitions.bucket_places import MOST_BUCKETS
from stateward.state.reader.key_evaluator import evaluator_of

Descriptor = dict[str, Any]

# What a migration brings to what the code declares; all else of a descriptor stays what it was.
_PARTS = ("key", "state")


@dataclass(frozen=True)
class Plan:
    """What there is to do, in sentences; how; and what the new checkpoint holds."""

    reasons: Sequence[str]
    migration: Migration
    descriptor: Descriptor


class MigrateVerb(NextGeneration[Plan]):
    """Bring every key and state to what the code declares."""

    name = "migrate"

    def resume(self, earlier: Earlier) -> Answer:
        """Answer for a try that died after its last act."""
        reasons, generation = earlier.plan["reasons"], earlier.plan["generation"]
        line = (
            f"{self.context.stream} is migrated: {'; '.join(reasons)}. Generation {generation} counts; an "
            "earlier try has done it."
        )
        return Answer((line,), data={"changed": True, "generation": generation})

    def plan(self) -> Plan | Answer:
        """Compare what the checkpoint holds with what the code declares.

        Raises:
            StateError: There is no state, it is not of a keyed stream, or a step is missing.
        """
        context = self.context
        require_drained(context.stream, context.generation.uri, runs=context.runs)
        job, config = context.job, self._wanted()
        found, now = read_descriptor(context.generation.uri), describe(job, config)
        if found is None:
            raise StateError(
                f"stream {context.stream}: expected a checkpoint with a committed batch, found none. There "
                "is no state: start the stream."
            )
        if not isinstance(job, StreamJob):
            raise StateError(
                f"stream {context.stream}: expected a stream of keyed logic, found one of kind "
                f"{now['kind']}: what Spark's own operators keep cannot become another state. Begin a new "
                "checkpoint, and fill its tables with `stateward backfill`."
            )
        reasons = _reasons(found, now)
        require_enough(context.stream, found, now)
        if not reasons:
            line = (
                f"{context.stream} has the keys, buckets and schema of the code already. Nothing was changed."
            )
            return Answer((line,), data={"changed": False})
        declared = declared_buckets(found, context.request.config)
        descriptor = with_declared_buckets(migrated_descriptor(found, now), declared)
        return Plan(reasons, migration_of(context, job, config, found), descriptor)

    def _wanted(self) -> Config:
        """The configuration with the number of buckets that was asked for; without one with the YAML's."""
        config, buckets = self.context.request.config, self.context.request.arguments.get("buckets")
        if buckets is None:
            return config
        if buckets > MOST_BUCKETS:
            raise StateError(
                f"stream {self.context.stream}: expected at most {MOST_BUCKETS} buckets, found {buckets}. "
                "Nothing was changed."
            )
        return structs.replace(config, state_buckets=buckets)

    def preview(self, plan: Plan) -> Answer:
        """Report how many keys and states would change."""
        survey = plan.migration.survey().masked(self.context.masker)
        line = (
            f"{self.context.stream} would be migrated, as generation {self.following.number}: "
            f"{'; '.join(plan.reasons)}."
        )
        data = {"changed": False, **asdict(survey)}
        return Answer((line, _counted(survey, "would change", "would be merged")), (_examples(survey),), data)

    def decision(self, plan: Plan) -> Mapping[str, Any]:
        """What there was to do."""
        return {"reasons": plan.reasons}

    def apply(self, plan: Plan) -> Answer:
        """Write every bucket of a copy again, and prove it."""
        following, current = self.following, self.context.generation
        done = plan.migration.run(following.uri)
        survey = done.survey.masked(self.context.masker)
        write_descriptor(following.uri, plan.descriptor)
        sums = [(bucket, one.keys, one.content) for bucket, one in sorted(done.buckets.items())]
        return Answer(
            (
                f"{self.context.stream} is migrated: {'; '.join(plan.reasons)}. Generation "
                f"{following.number} counts.",
                _counted(survey, "have changed", "were merged"),
                f"There are {done.keys_after:,} keys now, each as it was computed, and where the "
                "stream looks for it.",
                f"Generation {current.number} is still in {current.uri}.",
            ),
            (
                _examples(survey),
                Listing("Checksums, computed and found", ("bucket", "keys", "keys and states"), sums),
                steps_listing(done.steps),
            ),
            {"changed": True, "generation": following.number, **asdict(replace(done, survey=survey))},
        )


def _reasons(found: Descriptor, now: Descriptor) -> list[str]:
    """Describe what there is to do."""
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
        found: The descriptor of the checkpoint.
        now: The descriptor of the code.
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
        findings = " | ".join(str(one) for one in verdict.findings if one.level == verdict.level)
        raise StateError(
            f"stream {stream}: the state would still not fit this code after a migration: {findings}. "
            "Nothing was changed."
        )


def migrated_descriptor(found: Descriptor, now: Descriptor) -> Descriptor:
    """What a checkpoint holds once each key and state of it is as declared."""
    return combined({name: part for name, part in found.items() if name not in _PARTS}, now)


def migration_of(context: Context, job: StreamJob, config: Config, found: Descriptor) -> Migration:
    """The migration of the stream's state to what a declaration wants.

    Args:
        context: Whose checkpoint is read.
        job: The stream's declaration, or that of a stream that takes some of its keys.
        config: That stream's configuration.
        found: The descriptor of the checkpoint.

    Raises:
        StateError: A step of keys is missing.
    """
    stream = config.stream
    try:
        steps = key_chain(job.key_steps, found.get("key", {}).get("version", 1), job.key_version)
    except MissingStepError as error:
        raise StateError(f"stream {stream}: {error}. Nothing was changed.") from error
    conversion = KeyMigration(
        stream, evaluator_of(job, config), steps, job.state_version, job.state_steps, job.only
    )
    return Migration(
        spark=context.spark(),
        stream=stream,
        source_uri=context.generation.uri,
        conversion=conversion,
        buckets=config.state_buckets,
        report=context.report,
    )


def _counted(survey: Survey, changed: str, merged: str) -> str:
    keys = f"{survey.changed_keys:,} of {survey.keys:,} keys"
    line = f"{keys} {changed}, and {survey.changed_states:,} states {changed}"
    return f"{line}; {survey.merged:,} {merged} into another." if survey.merged else f"{line}."


def _examples(survey: Survey) -> Listing:
    rows = [(one.old, one.key, one.before, one.after) for one in survey.examples]
    return Listing("Examples", ("key before", "key after", "state before", "state after"), rows)
