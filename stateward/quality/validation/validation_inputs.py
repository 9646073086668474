"""The inputs of a validation, which are recorded with it, so that it can be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.quality.tables.version_range import Pin, Span, choose, pin_others
from stateward.quality.validation.records import Records, baseline_of, pins_of

if TYPE_CHECKING:
    from datetime import datetime

    from stateward.quality.suites.baseline import BaselineBounds, PastValidation
    from stateward.quality.suites.suite import Suite


@dataclass(frozen=True)
class ValidationInputs:
    """The inputs of a validation.

    Attributes:
        span: the versions it covers.
        as_of: the instant of the validation: when the last version of the range was the latest.
        others: the other tables it reads.
        earlier: validations of the versions before, the newest first.
        then: what an earlier validation of the same range evaluated its expectations against.
        repeats: run id of that validation.
    """

    span: Span
    as_of: datetime
    others: dict[str, Pin]
    earlier: list[PastValidation]
    then: dict[str, BaselineBounds]
    repeats: str | None


def find_inputs(
    suite: Suite, records: Records, table_uri: str, asked: tuple[int | None, int | None], now: datetime
) -> ValidationInputs:
    """Return the inputs of a validation; a range that is requested again is validated with its old inputs.

    Args:
        suite: the expectations.
        records: the earlier validations of the table.
        table_uri: the table.
        asked: first and last version requested; None for the default.
        now: the time, UTC.

    Raises:
        ValidationError: there is no such table or version.
    """
    span = choose(stream=records.stream, table=suite.table, uri=table_uri, asked=asked, done=records.done())
    record = None if None in asked else records.of_range(span, suite.name)
    return ValidationInputs(
        span=span,
        as_of=record["as_of"] if record else span.until or now,
        others=pin_others(records.stream, span, suite.reads, pins_of(record) if record else {}),
        earlier=records.before(span),
        then=baseline_of(record) if record else {},
        repeats=record["run_id"] if record else None,
    )
