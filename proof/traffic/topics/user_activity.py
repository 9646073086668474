"""Stories of the topic `user_activity`: logins and logouts."""

from __future__ import annotations

from random import Random

from proof.traffic.topics.scenarios import MINUTE_MS, SECOND_MS, Broken, Step, Story, Topic

_LOGIN, _LOGOUT = '"activity":"login"', '"activity":"logout"'
_TIMEOUT_MS = 60 * MINUTE_MS


def _ordinary(rng: Random) -> list[Step]:
    if rng.random() < 0.7:
        return [Step(0, _LOGIN), Step(rng.randrange(5 * SECOND_MS, 20 * MINUTE_MS), _LOGOUT)]
    return [Step(0, _LOGIN if rng.random() < 0.5 else _LOGOUT)]


def _visit(rng: Random) -> list[Step]:
    """Logs in and out: a session."""
    return [Step(0, _LOGIN), Step(rng.randrange(1, _TIMEOUT_MS), _LOGOUT)]


def _forgetful(rng: Random) -> list[Step]:
    """Never logs out: a timeout."""
    return [Step(0, _LOGIN)]


def _too_late(rng: Random) -> list[Step]:
    """Logs out exactly when the session has timed out: a timeout, and an anomaly."""
    return [Step(0, _LOGIN), Step(_TIMEOUT_MS, _LOGOUT)]


def _relogin(rng: Random) -> list[Step]:
    """Logs in twice, then out: two sessions."""
    return [Step(0, _LOGIN), Step(5 * MINUTE_MS, _LOGIN), Step(6 * MINUTE_MS, _LOGOUT)]


def _stray(rng: Random) -> list[Step]:
    """Logs out without a login: an anomaly."""
    return [Step(0, _LOGOUT)]


def _odd(rng: Random) -> list[Step]:
    """Reports an unknown activity: an anomaly."""
    return [Step(0, '"activity":"lunch"')]


USER_ACTIVITY = Topic(
    name="user_activity",
    key="user_id",
    prefix="user",
    weight=1.5,
    ordinary=Story("ordinary", _ordinary),
    stories=(
        Story("visit", _visit, weight=3),
        Story("forgetful", _forgetful),
        Story("too_late", _too_late),
        Story("relogin", _relogin),
        Story("stray", _stray),
        Story("odd", _odd, weight=0.3),
    ),
    broken=(Broken("wrong_type", "activity", '"activity":["login"]'),),
)
