"""What a run of `proof.care.moves` measures: its options, its moves, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from stateward.contract.state_care import CareRecord, Change
from stateward.control.care.cost import cost_of
from stateward.control.jobs.operation_request import operations_of_run
from tests.support.control.live_stream import LiveStream

LEVELS = (1, 3, 7, 16, 7, 3, 1)
"""The partitions that each level of the load needs: a number of them stays as long as half would not do."""


@dataclass(frozen=True)
class Options:
    """Options of a run.

    Attributes:
        minutes: How long a day is.
        looks: So many looks in a row have to advise a move.
        levels: The partitions that each level of the load needs, the first being those at the start.
    """

    minutes: int = 2
    looks: int = 2
    levels: tuple[int, ...] = LEVELS

    @property
    def day(self) -> timedelta:
        """How long a day is."""
        return timedelta(minutes=self.minutes)


@dataclass(frozen=True)
class Move:
    """One move.

    Attributes:
        at: When it was begun.
        before, after: The partitions.
        keys, state_bytes: The state that was moved.
        expected_s: The pause that was expected.
        pause_s: The time between the two batches before and after it.
        operation_s: How long the whole operation took, its watch included.
        written_bytes: What it wrote: a savepoint, and the next generation.
        steps: The seconds of its steps: those of the repartition.
    """

    at: datetime
    before: int
    after: int
    keys: int
    state_bytes: int
    expected_s: float
    pause_s: float
    operation_s: float
    written_bytes: int
    steps: Mapping[str, float]


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        began: When the first level began.
        moves: The moves.
        keys: The live keys over time.
        rows: Number of expected rows.
        records: Number of records sent.
        wrong: What was not as expected; empty if all was.
    """

    began: datetime
    moves: list[Move] = field(default_factory=list)
    keys: list[tuple[datetime, float]] = field(default_factory=list)
    rows: int = 0
    records: int = 0
    wrong: dict[str, Any] = field(default_factory=dict)


def moves_of(stream: LiveStream, record: CareRecord, committed: Sequence[datetime]) -> list[Move]:
    """What each change of a record was and cost.

    Args:
        stream: The stream.
        record: The looks and the changes.
        committed: When batches were committed, in order.
    """
    return [
        _move(stream, change, record.changes[:number], record, committed)
        for number, change in enumerate(record.changes)
    ]


def _move(
    stream: LiveStream,
    change: Change,
    earlier: Sequence[Change],
    record: CareRecord,
    committed: Sequence[datetime],
) -> Move:
    look = max((one for one in record.looks if one.at <= change.at), key=lambda one: one.at)
    results = [
        one.result() or {} for one in operations_of_run(stream.name, stream.installation.settings, change.run)
    ]
    data = [result.get("data", {}) for result in results]
    steps = [step for one in data for step in one.get("steps", ())]
    written = sum(step["bytes_written"] for step in steps) + sum(one.get("size", 0) for one in data)
    return Move(
        change.at,
        change.before,
        change.after,
        look.keys,
        look.state_bytes,
        cost_of("repartition", look, earlier).pause_s,
        longest_gap(committed, change.at, change.at + timedelta(seconds=change.pause_s or 0.0)),
        change.pause_s or 0.0,
        written,
        {step["name"]: round(step["seconds"], 1) for step in steps},
    )


def longest_gap(committed: Sequence[datetime], since: datetime, until: datetime) -> float:
    """The time between the last batch before a stop and the first one after it, seconds.

    Args:
        committed: When batches were committed, in order.
        since: When the stop was asked for.
        until: When the operation had ended.
    """
    gaps = [(later - at).total_seconds() for at, later in pairwise(committed) if later > since and at < until]
    return max(gaps)
