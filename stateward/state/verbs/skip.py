"""The verb ``skip``: a stream continues after records that Kafka has lost, which the answer lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stateward.runtime.api.landing_job import LandingJob
from stateward.state.errors import StateError
from stateward.state.migration.skip_records import Skip
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import Earlier, NextGeneration
from stateward.state.savepoints.replay_reach import Gap, landed_of, landed_since

_COLUMNS = ("topic", "partition", "expected next", "Kafka begins with", "lost", "of them in raw_events")


@dataclass(frozen=True)
class Plan:
    """What is lost, and the batch that was planned to read it and has written nothing, if there is one."""

    skip: Skip
    gaps: Sequence[Gap]
    batch: int | None


class SkipVerb(NextGeneration[Plan]):
    """Let the stream continue after records that Kafka no longer has."""

    name = "skip"

    def resume(self, earlier: Earlier) -> Answer:
        """Answer for a try that died after its last act."""
        gaps = [Gap(**gap) for gap in earlier.plan["gaps"]]
        return self._answer(gaps, earlier.plan["batch"], earlier.plan["generation"])

    def plan(self) -> Plan | Answer:
        """Compare what is to be read next with what Kafka has.

        Raises:
            StateError: The stream cannot go on after what is lost.
            BrokerAwayError: Kafka does not answer.
        """
        context = self.context
        skip = Skip(context.request.config, context.generation, context.kafka(), context.report)
        gaps = skip.gaps()
        if not gaps:
            line = f"Kafka has all that {context.stream} reads next. Nothing was changed."
            return Answer((line,), data={"changed": False, "gaps": []})
        # In a table whose rows are identified by their offsets, those of two topics of one name would mix.
        again = [gap for gap in gaps if gap.is_recreated and gap.topic in context.request.config.topics]
        if again and isinstance(context.job, LandingJob):
            raise StateError(
                f"stream {context.stream}: {again[0]}. Its rows are known by their offsets, and those begin "
                "again. Move the old rows to another table, then begin a new checkpoint "
                "(docs/streams/raw_events.md). Nothing was changed."
            )
        return Plan(skip, gaps, skip.unread_batch())

    def preview(self, plan: Plan) -> Answer:
        """Report what is lost."""
        return self._answer(plan.gaps, plan.batch, self.following.number)

    def decision(self, plan: Plan) -> Mapping[str, Any]:
        """What is lost."""
        return {"gaps": [asdict(gap) for gap in plan.gaps], "batch": plan.batch}

    def apply(self, plan: Plan) -> Answer:
        """Copy the checkpoint, let the copy read on after the gaps, and prove that nothing else changed."""
        unchanged = plan.skip.build(self.following.uri, plan.gaps, plan.batch)
        return self._answer(plan.gaps, plan.batch, self.following.number, unchanged)

    def _answer(
        self, gaps: Sequence[Gap], batch: int | None, generation: int, unchanged: int | None = None
    ) -> Answer:
        request, stream = self.context.request, self.context.stream
        data = [gap for gap in gaps if gap.topic in request.config.topics]
        lost = sum(gap.lost for gap in data)
        lines = [
            f"{stream} {self.would('go', 'goes')} on, as generation {generation}, after {lost:,} records "
            "that Kafka has lost."
        ]
        lines += [f"{gap}: how many records were lost is not known." for gap in data if gap.is_recreated]
        if batch is not None:
            lines.append(
                f"Batch {batch}, which was to read them and has written nothing, {self.would('be', 'is')} "
                "planned again."
            )
        if unchanged is not None:
            lines.append(f"Every key, value and timer is what it was: {unchanged:,} files, byte for byte.")
        lines.append(
            f"What there is of the past: {landed_since(request.raw_uri, request.config.topics)}. `stateward "
            f"backfill {stream}` recomputes the tables from that (docs/backfill.md)."
        )
        rows = [
            (
                *(gap.topic, gap.partition, gap.expected, gap.begins),
                *((None, None) if gap.is_recreated else (gap.lost, landed_of(request.raw_uri, gap))),
            )
            for gap in data
        ]
        return Answer(
            lines,
            (Listing("Lost", _COLUMNS, rows),),
            {
                "changed": not request.dry_run,
                "generation": generation,
                "lost": lost,
                "gaps": [asdict(gap) for gap in gaps],
            },
        )
