"""The verbs ``advise`` and ``repartition``: how many partitions a state should have, and has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stateward.contract.names import BATCH_COUNTS
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.files import checkpoint_copy
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.operation.answer import Answer, Listing, steps_listing
from stateward.state.operation.context import Context
from stateward.state.operation.drained import require_drained
from stateward.state.operation.verb import Earlier, NextGeneration, ReadOnly
from stateward.state.partitions.advice import Measured, advise
from stateward.state.partitions.repartition import repartition
from stateward.state.verbs.inspect import inspect

_COUNTED = ("accepted", "dead", "late", "duplicates")
_BACK = timedelta(days=7)
_HOUR_S = 3600
# For a stream that has just started, so that its first batch is not the rate.
_LEAST_S = 60


class AdviseVerb(ReadOnly):
    """Propose a number of partitions."""

    name = "advise"

    def apply(self) -> Answer:
        """Measure the state and the traffic, and propose."""
        found = _measured(self.context)
        advice, stream = advise(found), self.context.stream
        proposal = (
            f"{stream} has {found.partitions} partitions, and {advice.partitions} are right."
            if advice.partitions == found.partitions
            else f"{stream} has {found.partitions} partitions, and should have {advice.partitions}: run "
            f"`repartition` with {advice.partitions}, or without a number."
        )
        rows = [
            ("partitions now", found.partitions),
            ("keys", found.keys),
            ("bytes of state", found.state_bytes),
            ("records a second, in the busiest hour of the last seven days", round(found.records_per_s, 1)),
            ("cores", found.cores),
            ("buckets", found.buckets),
        ]
        return Answer(
            (proposal, *advice.reasons),
            (Listing("Measured", ("what", "how much"), rows),),
            {"measured": asdict(found), **asdict(advice)},
        )


@dataclass(frozen=True)
class Plan:
    """The numbers of partitions before and after, and the reasons of the advice if it was followed."""

    before: int
    wanted: int
    advised: Sequence[str]


class RepartitionVerb(NextGeneration[Plan]):
    """Give the state another number of partitions."""

    name = "repartition"

    def resume(self, earlier: Earlier) -> Answer:
        """Answer for a try that died after its last act."""
        now, before = examine(self.context.generation.uri).partitions, earlier.plan["before"]
        line = f"{self.context.stream} has {now} partitions and had {before}; an earlier try has done it."
        return Answer((line,), data={"changed": True, "partitions_before": before, "partitions_after": now})

    def plan(self) -> Plan | Answer:
        """Determine the current and the wanted number of partitions."""
        context, wanted = self.context, self.context.request.arguments["partitions"]
        checkpoint = require_drained(context.stream, context.generation.uri, runs=context.runs)
        # While the stream runs, a dry run reads the number from the plan of the last batch.
        now = checkpoint.state_partitions() if context.runs else examine(context.generation.uri).partitions
        advised: tuple[str, ...] = ()
        if wanted is None:
            advice = advise(_measured(context))
            wanted = advice.partitions
            advised = (f"{wanted} is what `advise` proposes.", *advice.reasons)
        if now is None or now == wanted:
            line = f"{context.stream} has {wanted} partitions already. Nothing was changed."
            return Answer((line, *advised), data={"changed": False, "partitions": wanted})
        return Plan(now, wanted, advised)

    def preview(self, plan: Plan) -> Answer:
        """Report how much would be copied."""
        size = checkpoint_copy.size_of(self.context.generation.uri)
        line = (
            f"{self.context.stream} would go from {plan.before} to {plan.wanted} partitions, as generation "
            f"{self.following.number}: {size:,} bytes would be copied, moved and compared."
        )
        data = {"changed": False, "partitions": plan.before, "wanted": plan.wanted, "bytes": size}
        return Answer((line, *plan.advised), data=data)

    def decision(self, plan: Plan) -> Mapping[str, Any]:
        """The number of partitions before."""
        return {"before": plan.before}

    def apply(self, plan: Plan) -> Answer:
        """Let Spark repartition a copy, and prove it."""
        context, source_uri = self.context, self.context.generation.uri
        done = repartition(context.spark(), source_uri, self.following.uri, plan.wanted, context.report)
        digests = [(name, one.entries, one.keys, one.content) for name, one in sorted(done.digests.items())]
        columns = ("variable", "entries", "keys", "all")
        return Answer(
            (
                f"{context.stream} has {done.partitions_after} partitions and had {done.partitions_before}; "
                f"generation {self.following.number} counts.",
                "Every key, value and timer is what it was, and lies where Spark looks for it.",
                f"Generation {context.generation.number} is still in {source_uri}.",
                *plan.advised,
            ),
            (
                Listing("Checksums, the same before and after", columns, digests),
                steps_listing(done.steps),
            ),
            asdict(done),
        )


def _measured(context: Context) -> Measured:
    """Measure the current state, the recorded traffic, and the cores of the session.

    Raises:
        StateError: There is no state.
    """
    config = context.request.config
    spark = context.spark()
    found = inspect(
        spark,
        context.generation.uri,
        context.stream,
        job=context.job,
        config=config,
        samples=1,
        report=context.report,
    )
    partitions = Checkpoint(context.generation.uri).state_partitions()
    if partitions is None:
        raise StateError(f"stream {context.stream}: expected a planned batch, found none; let it run first")
    return Measured(
        partitions=partitions,
        state_bytes=found.size.live_bytes,
        keys=found.size.keys,
        records_per_s=_busiest(config.tables[BATCH_COUNTS], context.stream, context.clock() - _BACK),
        cores=spark.sparkContext.defaultParallelism,
        buckets=config.state_buckets if isinstance(context.job, StreamJob) else None,
    )


def _busiest(uri: str, stream: str, since: datetime) -> float:
    """The rate in the busiest hour, records/s: a backlog that is read once is no lasting rate."""
    try:
        rows = (
            DeltaTable(uri)
            .to_pyarrow_dataset()
            .to_table(
                columns=["committed_at", *_COUNTED],
                filter=(pc.field("stream") == stream) & (pc.field("committed_at") >= since),
            )
        )
    except TableNotFoundError:
        return 0.0
    return busiest_hour(
        [(row["committed_at"], sum(row[name] or 0 for name in _COUNTED)) for row in rows.to_pylist()]
    )


def busiest_hour(batches: list[tuple[datetime, int]]) -> float:
    """The largest mean rate of a clock hour, records/s.

    Args:
        batches: Commit time and number of records of each batch.
    """
    by_hour: dict[datetime, int] = {}
    for at, records in batches:
        hour = at.replace(minute=0, second=0, microsecond=0)
        by_hour[hour] = by_hour.get(hour, 0) + records
    if not by_hour:
        return 0.0
    times = [at for at, _ in batches]
    lasted = (max(times) - min(times)).total_seconds()
    return max(by_hour.values()) / min(_HOUR_S, max(_LEAST_S, lasted))
