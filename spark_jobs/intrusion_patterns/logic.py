"""Patterns of several steps: extend, complete, forget. Pure.

For each pattern, and for each number of its steps, the latest match is kept: the one whose first step is the
newest, of those the one whose second step is, and so on. Writing S, F and E for the steps of a pattern::

    events     S1    F1    S2    E1           S2 begins a match of its own, S1 F1 stays
    kept       S1    S1    S2    nothing      E1 completes S1 F1: an alert, and S2 is forgotten with it
                     S1 F1 S1 F1

The latest is enough: whatever an older match could be extended by, the latest can be too, and it lasts
longer. Three rules hold throughout:

* in order means after, by (event time, event id): of events at the same time the ids decide;
* within means less than the horizon: a step that comes the horizon after the first is too late;
* an event is at most one step of a pattern's match, and a completed match takes all others of its pattern
  with it, so that no event is in two alerts of one pattern.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from spark_jobs.intrusion_patterns.model import (
    IntrusionAlert,
    IntrusionState,
    Match,
    Pattern,
    SecurityEvent,
    Step,
)
from stateward.runtime.api.key_logic import NO_ROWS, Rows, row_id

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class IntrusionLogic:
    """`stateward.runtime.api.key_logic.KeyLogic` of the stream.

    Attributes:
        patterns: What is looked for, each on its own.

    Raises:
        ValueError: Two patterns have the same name.
    """

    patterns: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        names = [pattern.name for pattern in self.patterns]
        if len(self._named) < len(names):
            raise ValueError(f"expected patterns of different names, found {', '.join(names)}")

    def apply(
        self, key: str, state: IntrusionState | None, event: SecurityEvent
    ) -> tuple[IntrusionState | None, Rows]:
        """Let ``event`` be the next step wherever it is one."""
        if event.kind not in self._kinds:
            return state, NO_ROWS
        matches = state.matches if state else ()
        rows: list[IntrusionAlert] = []
        for pattern in self.patterns:
            if event.kind in pattern.steps:
                matches, complete = extend(pattern, matches, event)
                if complete:
                    rows.append(alert(key, pattern, complete))
        return _state(matches), rows

    def deadline(self, state: IntrusionState) -> int:
        """The horizon after the first step, of the match that ends first."""
        return min(self._due_ms(match) for match in state.matches)

    def expire(self, key: str, state: IntrusionState, at_ms: int) -> tuple[IntrusionState | None, Rows]:
        """Forget the matches that are due at ``at_ms``, the deadline. There is no row for them."""
        return _state(tuple(match for match in state.matches if self._due_ms(match) > at_ms)), NO_ROWS

    def _due_ms(self, match: Match) -> int:
        """When a match ends: at once if it is of another release, whose pattern is gone or was longer."""
        pattern = self._named.get(match.pattern)
        started_ms = match.steps[0].event_ms
        if pattern is None or len(match.steps) >= len(pattern.steps):
            return started_ms
        return started_ms + pattern.horizon_ms

    @cached_property
    def _named(self) -> dict[str, Pattern]:
        return {pattern.name: pattern for pattern in self.patterns}

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(kind for pattern in self.patterns for kind in pattern.steps)


def extend(
    pattern: Pattern, matches: tuple[Match, ...], event: SecurityEvent
) -> tuple[tuple[Match, ...], tuple[Step, ...]]:
    """The matches after ``event``, and the steps of the pattern if that completes it, else none.

    An event that is older than a match, as eager emission has them, does not extend it, and begins one only
    if that is the latest. What is due has been forgotten before, so every match here is within its horizon.

    Args:
        pattern: The pattern that is followed.
        matches: Those of all patterns.
        event: Its kind is in the pattern.
    """
    step = Step(event.event_ms, event.event_id)
    latest: dict[int, tuple[Step, ...]] = {0: ()}
    latest |= {len(match.steps): match.steps for match in matches if match.pattern == pattern.name}
    others = tuple(match for match in matches if match.pattern != pattern.name)
    # Longest first, so that the event does not follow itself.
    for number in range(len(pattern.steps), 0, -1):
        before = latest.get(number - 1)
        if before is None or pattern.steps[number - 1] != event.kind or (before and step <= before[-1]):
            continue
        found = (*before, step)
        if number == len(pattern.steps):
            return others, found
        latest[number] = max(found, latest.get(number, ()))
    return (*others, *(Match(pattern.name, steps) for steps in latest.values() if steps)), ()


def alert(source_ip: str, pattern: Pattern, steps: tuple[Step, ...]) -> IntrusionAlert:
    """The row of a complete pattern."""
    first, last = steps[0], steps[-1]
    times = tuple(_EPOCH + timedelta(milliseconds=step.event_ms) for step in steps)
    return IntrusionAlert(
        alert_id=alert_id(source_ip, pattern, steps),
        source_ip=source_ip,
        pattern=pattern.name,
        started_ms=first.event_ms,
        completed_ms=last.event_ms,
        duration_ms=last.event_ms - first.event_ms,
        event_ids=tuple(step.event_id for step in steps),
        event_times=times,
        summary=_summary(source_ip, pattern, times),
    )


def alert_id(source_ip: str, pattern: Pattern, steps: tuple[Step, ...]) -> str:
    """The same on every run, so that a replay is recognised."""
    return row_id(source_ip, pattern.name, *(part for step in steps for part in step))


def _summary(source_ip: str, pattern: Pattern, times: tuple[datetime, ...]) -> str:
    steps = (
        f"{kind} at {at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
        for kind, at in zip(pattern.steps, times, strict=True)
    )
    return f"{source_ip}: {', '.join(steps)}. {pattern.remedy}"


def _state(matches: tuple[Match, ...]) -> IntrusionState | None:
    return IntrusionState(matches) if matches else None
