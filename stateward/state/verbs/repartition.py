"""The verb ``repartition``: gives a state another number of partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stateward.state.files import checkpoint_copy
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.operation.answer import Answer, Listing, steps_listing
from stateward.state.operation.drained import require_drained
from stateward.state.operation.verb import Earlier, NextGeneration
from stateward.state.partitions.advice import advise
from stateward.state.partitions.repartition import repartition
from stateward.state.verbs.advise import measured


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
            advice = advise(measured(context).measured)
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
