"""Recently failed expectations, each listed once. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from stateward.pages.quality.history import Name, Result, Validation

_ORDER = {"bad": 0, "warn": 1, "good": 2}


@dataclass(frozen=True)
class Failure:
    """An expectation that fails, or has failed.

    Attributes:
        newest: Its newest failed result.
        times: Number of failed results in the time shown.
        first_at: When it first failed in that time.
        is_over: Whether it has passed since.
    """

    newest: Result
    times: int
    first_at: datetime
    is_over: bool

    @property
    def level(self) -> str:
        """How bad it is."""
        return self.newest.level


def failures_of(results: Iterable[Result], latest: Mapping[Name, Validation]) -> tuple[Failure, ...]:
    """Return the expectations that failed, the newest first and among equals the critical ones.

    Args:
        results: The oldest first; passed ones are ignored.
        latest: The last validation of each table.
    """
    failed: dict[tuple[Name, str], list[Result]] = defaultdict(list)
    for result in results:
        if not result.held:
            failed[result.name, result.expectation].append(result)
    found = [
        Failure(
            newest=of_one[-1],
            times=len(of_one),
            first_at=of_one[0].at,
            is_over=name in latest and latest[name].at > of_one[-1].at,
        )
        for (name, _), of_one in failed.items()
    ]
    found.sort(key=lambda one: (one.newest.name, one.newest.expectation))
    return tuple(sorted(found, key=lambda one: (-one.newest.at.timestamp(), _ORDER[one.level])))


def failing_of(failures: Iterable[Failure], name: Name) -> frozenset[str]:
    """Return the expectations of a table that fail now."""
    return frozenset(
        one.newest.expectation for one in failures if one.newest.name == name and not one.is_over
    )


def latest_of(validations: Iterable[Validation]) -> dict[Name, Validation]:
    """Return the validation of each table's latest version.

    Args:
        validations: The oldest first. A later validation of older versions says nothing about the current
            state; a table that was dropped and created again has another id.
    """
    found: dict[Name, Validation] = {}
    for one in validations:
        known = found.get(one.name)
        if known is None or known.table_id != one.table_id or one.version >= known.version:
            found[one.name] = one
    return found
