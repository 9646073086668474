"""What a validation rests on: written down with it, so that it can be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.quality.validation.records import Records, baseline_of, pins_of
from stateward.quality.validation.version_range import Pin, Span, choose, pin_others

if TYPE_CHECKING:
    from datetime import datetime

    from stateward.quality.suites.suite import Suite
    from stateward.quality.validation.baseline import Past, Usual


@dataclass(frozen=True)
class Basis:
    """What a validation rests on.

    Attributes:
        span: the versions it covers.
        as_of: what counts as now: when the last version of the range was the latest.
        others: the other tables it reads.
        earlier: validations of the versions before, the newest first.
        then: what an earlier validation of this very range held its expectations against.
        repeats: its run id.
    """

    span: Span
    as_of: datetime
    others: dict[str, Pin]
    earlier: list[Past]
    then: dict[str, Usual]
    repeats: str | None


def find_basis(
    suite: Suite, records: Records, table_uri: str, asked: tuple[int | None, int | None], now: datetime
) -> Basis:
    """Return what a validation is to rest on; a range that is asked for once more is repeated as it was.

    Args:
        suite: what must hold.
        records: the earlier validations of the table.
        table_uri: the table.
        asked: first and last version asked for; None for what is due.
        now: the time, UTC.

    Raises:
        ValidationError: there is no such table or version.
    """
    span = choose(stream=records.stream, table=suite.table, uri=table_uri, asked=asked, done=records.done())
    record = None if None in asked else records.of_range(span, suite.name)
    return Basis(
        span=span,
        as_of=record["as_of"] if record else span.until or now,
        others=pin_others(records.stream, span, suite.reads, pins_of(record) if record else {}),
        earlier=records.before(span),
        then=baseline_of(record) if record else {},
        repeats=record["run_id"] if record else None,
    )
