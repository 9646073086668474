"""Stories of the topic `device_readings`: heartbeats, errors, and silence."""

from __future__ import annotations

from random import Random

from proof.traffic.topics.scenarios import MINUTE_MS, Broken, Step, Story, Topic

_OFFLINE_MS = 60 * MINUTE_MS
_MODES = ("running",) * 6 + ("idle",) * 2


def _reading(status: str, error_code: str | None = None) -> str:
    code = f'"{error_code}"' if error_code else "null"
    return f'"status":"{status}","error_code":{code}'


_READINGS = {mode: _reading(mode) for mode in _MODES}


def _ordinary(rng: Random) -> list[Step]:
    if rng.random() < 0.05:
        return [Step(0, _reading("error", f"E{rng.randrange(40):02d}"))]
    return [Step(0, _READINGS[_MODES[int(rng.random() * len(_MODES))]])]


def _beats(count: int) -> list[Step]:
    return [Step(number * 20_000, _READINGS["running"]) for number in range(count)]


def _sleeper(rng: Random) -> list[Step]:
    """Silent for an hour or more, then back: offline, back online, and offline for good."""
    beats = _beats(3)
    back_ms = beats[-1].after_ms + _OFFLINE_MS + rng.randrange(20 * MINUTE_MS)
    return [*beats, Step(back_ms, _READINGS["idle"])]


def _nodder(rng: Random) -> list[Step]:
    """Silent for a millisecond less than an hour: offline only for good."""
    beats = _beats(3)
    return [*beats, Step(beats[-1].after_ms + _OFFLINE_MS - 1, _READINGS["running"])]


def _retired(rng: Random) -> list[Step]:
    """Works, and is retired: no alert."""
    return [*_beats(3), Step(MINUTE_MS, _reading("retired"))]


def _failing(rng: Random) -> list[Step]:
    """More error codes than are kept."""
    return [Step(number * 3_000, _reading("error", f"E{number:02d}")) for number in range(22)]


def _odd(rng: Random) -> list[Step]:
    """Reports an unknown mode: still alive."""
    return [Step(0, _reading("humming"))]


DEVICE_READINGS = Topic(
    name="device_readings",
    key="device_id",
    prefix="device",
    weight=1.5,
    ordinary=Story("ordinary", _ordinary),
    stories=(
        Story("sleeper", _sleeper, weight=3),
        Story("nodder", _nodder),
        Story("retired", _retired),
        Story("failing", _failing, weight=0.3),
        Story("odd", _odd, weight=0.3),
    ),
    broken=(
        Broken("missing_field", "status", '"error_code":null'),
        Broken("wrong_type", "error_code", '"status":"error","error_code":17'),
    ),
)
