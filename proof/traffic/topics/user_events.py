"""Stories of the topic `user_events`: page views with an optional number `value`."""

from __future__ import annotations

from random import Random

from proof.traffic.topics.scenarios import MINUTE_MS, SECOND_MS, Broken, Step, Story, Topic

_TYPES = ("view",) * 6 + ("search", "search", "click", "cart")
# Quarters: sums of them are exact whatever their order.
_VALUES = tuple(f',"value":{quarters / 4}' for quarters in range(400))
_SESSION_GAP_MS = 30 * MINUTE_MS
_WISH_S = 3600


def _view(rng: Random, more: str = "") -> str:
    draw = rng.random()
    value = _VALUES[int(draw * 500)] if draw < 0.8 else ""
    return f'"event_type":"{_TYPES[int(rng.random() * 10)]}"{value}{more}'


def _ordinary(rng: Random) -> list[Step]:
    return [Step(0, _view(rng))]


def _checkout(rng: Random) -> list[Step]:
    """A few views, and a purchase that ends the session."""
    views = [Step(number * 20 * SECOND_MS, _view(rng)) for number in range(rng.randint(1, 4))]
    return [*views, Step(90 * SECOND_MS, '"event_type":"purchase","value":99.5,"is_last":true')]


def _patient(rng: Random) -> list[Step]:
    """Asks for an hour's gap and comes back within it: one session."""
    back_ms = rng.randrange(_SESSION_GAP_MS, _WISH_S * 1000)
    return [Step(0, _view(rng, f',"timeout_s":{_WISH_S}')), Step(back_ms, _view(rng))]


def _impatient(rng: Random) -> list[Step]:
    """Asks for a gap of half a minute and comes back right after it: two sessions."""
    return [Step(0, _view(rng, ',"timeout_s":30')), Step(30 * SECOND_MS, _view(rng))]


def _returning(rng: Random) -> list[Step]:
    """Comes back exactly the gap later: two sessions."""
    return [Step(0, _view(rng)), Step(_SESSION_GAP_MS, _view(rng))]


def _lingering(rng: Random) -> list[Step]:
    """Comes back a millisecond before the gap is over: one session."""
    return [Step(0, _view(rng)), Step(_SESSION_GAP_MS - 1, _view(rng))]


USER_EVENTS = Topic(
    name="user_events",
    key="user_id",
    prefix="user",
    weight=4,
    ordinary=Story("ordinary", _ordinary),
    stories=(
        Story("checkout", _checkout, weight=4),
        Story("patient", _patient),
        Story("impatient", _impatient),
        Story("returning", _returning),
        Story("lingering", _lingering),
    ),
    broken=(
        Broken("missing_field", "event_type", '"event_type":null'),
        Broken("wrong_type", "timeout_s", '"event_type":"view","timeout_s":"60"'),
        Broken("wrong_type", "is_last", '"event_type":"view","is_last":"true"'),
        Broken("value_out_of_range", "timeout_s", '"event_type":"view","timeout_s":0'),
    ),
)
