"""Stories of the topic `security_events`: attacks in three steps, and what only looks like one."""

from __future__ import annotations

from random import Random

from proof.traffic.topics.scenarios import MINUTE_MS, SECOND_MS, Broken, Step, Story, Topic

_HORIZON_MS = 20 * MINUTE_MS
# Noise holds single steps too, but hardly ever the last one.
_NOISE = ("port_open",) * 6 + ("login_ok",) * 5 + ("auth_failure",) * 3 + ("recon_scan",) * 2
_SCAN, _FAILURE, _ESCALATION = "recon_scan", "auth_failure", "privilege_escalation"


def _kind(kind: str) -> str:
    return f'"kind":"{kind}"'


_MEMBERS = tuple(_kind(kind) for kind in _NOISE)
_RAISED = _kind(_ESCALATION)


def _steps(*steps: tuple[int, str]) -> list[Step]:
    return [Step(after_ms, _kind(kind)) for after_ms, kind in steps]


def _ordinary(rng: Random) -> list[Step]:
    draw = rng.random()
    return [Step(0, _RAISED if draw < 0.004 else _MEMBERS[int(draw * len(_MEMBERS))])]


def _attack(rng: Random) -> list[Step]:
    """Scan, failure, escalation: an alert."""
    tried = rng.randrange(1, _HORIZON_MS - MINUTE_MS)
    return _steps((0, _SCAN), (tried, _FAILURE), (tried + rng.randrange(1, MINUTE_MS), _ESCALATION))


def _patient(rng: Random) -> list[Step]:
    """The escalation comes a millisecond before the horizon: an alert."""
    return _steps((0, _SCAN), (MINUTE_MS, _FAILURE), (_HORIZON_MS - 1, _ESCALATION))


def _noisy(rng: Random) -> list[Step]:
    """Scans and failures over and over, and one escalation: one alert."""
    tries = [(number * 5 * SECOND_MS, kind) for number, kind in enumerate((_SCAN, _FAILURE) * 4)]
    return _steps(*tries, (MINUTE_MS, _ESCALATION), (2 * MINUTE_MS, _ESCALATION))


def _too_slow(rng: Random) -> list[Step]:
    """The escalation comes exactly at the horizon: nothing."""
    return _steps((0, _SCAN), (MINUTE_MS, _FAILURE), (_HORIZON_MS, _ESCALATION))


def _wrong_order(rng: Random) -> list[Step]:
    """The failure comes before the scan: nothing."""
    return _steps((0, _FAILURE), (MINUTE_MS, _SCAN), (2 * MINUTE_MS, _ESCALATION))


def _incomplete(rng: Random) -> list[Step]:
    """No failure between: nothing."""
    return _steps((0, _SCAN), (MINUTE_MS, _ESCALATION))


SECURITY_EVENTS = Topic(
    name="security_events",
    key="source_ip",
    prefix="198.51",
    weight=1,
    ordinary=Story("ordinary", _ordinary),
    stories=tuple(
        Story(tell.__name__.lstrip("_"), tell)
        for tell in (_attack, _patient, _noisy, _too_slow, _wrong_order, _incomplete)
    ),
    broken=(Broken("empty_field", "kind", '"kind":" "'),),
)
