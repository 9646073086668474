"""Sessions of one user by hand, for contestants without a session window. Standard library only."""

from __future__ import annotations

Run = list[int]
"""`started_ms, ended_ms, event_count` of a session that may still grow."""


def add(runs: list[Run], time_ms: int, gap_ms: int) -> None:
    """Put one event into the open sessions of its user, joining those between which it lies."""
    joined = [time_ms, time_ms, 1]
    for run in [run for run in runs if time_ms - run[1] < gap_ms and run[0] - time_ms < gap_ms]:
        runs.remove(run)
        joined = [min(run[0], joined[0]), max(run[1], joined[1]), run[2] + joined[2]]
    runs.append(joined)


def take_closed(runs: list[Run], watermark_ms: int, gap_ms: int) -> list[Run]:
    """Remove and return the sessions that no event can reach any more: the watermark is past."""
    closed = [run for run in runs if run[1] + gap_ms <= watermark_ms]
    if closed:
        runs[:] = [run for run in runs if run[1] + gap_ms > watermark_ms]
    return closed
