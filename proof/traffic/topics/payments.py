"""Stories of the topic `payments`: transactions, and what follows when there are too many of them."""

from __future__ import annotations

from random import Random

from proof.traffic.topics.scenarios import MINUTE_MS, SECOND_MS, Broken, Step, Story, Topic

_WINDOW_MS = 10 * MINUTE_MS
_AUTHENTICATION_MS = 2 * MINUTE_MS


def _pay(after_ms: int, amount: float) -> Step:
    return Step(after_ms, f'"kind":"transaction","amount":{amount}')


def _say(after_ms: int, kind: str) -> Step:
    return Step(after_ms, f'"kind":"{kind}"')


def _small(rng: Random) -> float:
    return rng.randrange(100, 12_000) / 100


def _five(rng: Random) -> list[Step]:
    """Five small transactions within two minutes: the fifth, after a minute and a half, is a breach."""
    return [_pay(number * 20 * SECOND_MS, _small(rng)) for number in range(4)] + [
        _pay(90 * SECOND_MS, _small(rng))
    ]


_BREACH_MS = 90 * SECOND_MS


def _ordinary(rng: Random) -> list[Step]:
    if rng.random() < 0.15:
        return [_say(0, "authenticated"), _pay(rng.randrange(90 * SECOND_MS), _small(rng))]
    return [_pay(0, _small(rng))]


def _by_count(rng: Random) -> list[Step]:
    """Too many transactions: suspicious, and forgotten when nothing follows."""
    return _five(rng)


def _by_amount(rng: Random) -> list[Step]:
    """Two transactions of 5,000 together: suspicious."""
    return [_pay(0, 2500.01), _pay(rng.randrange(_WINDOW_MS), 2499.99)]


def _confirmed(rng: Random) -> list[Step]:
    """A review confirms it, and the case stays open: flagged, expired."""
    return [*_five(rng), _say(_BREACH_MS + 5 * MINUTE_MS, "review_confirmed")]


def _closed(rng: Random) -> list[Step]:
    """A review confirms it, and the case is closed."""
    return [*_confirmed(rng), _say(_BREACH_MS + 15 * MINUTE_MS, "case_closed")]


def _again(rng: Random) -> list[Step]:
    """A second breach flags the account."""
    return [*_five(rng), _pay(_BREACH_MS + MINUTE_MS, 5000)]


def _authenticated(rng: Random) -> list[Step]:
    """Authenticated in time: no longer suspicious; the window starts again, and four more are no breach."""
    more = [_pay(_BREACH_MS + _AUTHENTICATION_MS + number * SECOND_MS, _small(rng)) for number in range(4)]
    return [*_five(rng), _say(_BREACH_MS + _AUTHENTICATION_MS - 1, "authenticated"), *more]


def _authenticated_late(rng: Random) -> list[Step]:
    """Authenticated a millisecond too late: the account stays suspicious, and a second breach flags it."""
    late = _say(_BREACH_MS + _AUTHENTICATION_MS, "authenticated")
    return [*_five(rng), late, _pay(_BREACH_MS + _AUTHENTICATION_MS + SECOND_MS, 5000)]


def _near_miss(rng: Random) -> list[Step]:
    """Four transactions, and a fifth exactly when the first leaves the window: nothing."""
    four = [_pay(number * MINUTE_MS, _small(rng)) for number in range(4)]
    return [*four, _pay(_WINDOW_MS, _small(rng))]


def _just_below(rng: Random) -> list[Step]:
    """A cent below 5,000: nothing."""
    return [_pay(0, 2500), _pay(MINUTE_MS, 2499.99)]


PAYMENTS = Topic(
    name="payments",
    key="account_id",
    prefix="account",
    weight=2,
    ordinary=Story("ordinary", _ordinary),
    stories=tuple(
        Story(tell.__name__.lstrip("_"), tell)
        for tell in (
            _by_count,
            _by_amount,
            _confirmed,
            _closed,
            _again,
            _authenticated,
            _authenticated_late,
            _near_miss,
            _just_below,
        )
    ),
    broken=(
        Broken("value_out_of_range", "amount", '"kind":"transaction","amount":-1'),
        Broken("wrong_type", "amount", '"kind":"transaction","amount":"1"'),
        Broken("missing_field", "kind", '"kind":null,"amount":1'),
    ),
)
