"""Messages to send, and the delivery of each to each notifier. Pure.

An attempt is counted before it is made. If the process dies during an attempt, its successor makes the next
one, up to a limit: a message arrives at least once, and possibly twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stateward.alerts.incident import Message

MOST_ATTEMPTS = 5
_FIRST_GAP = timedelta(seconds=30)
_KEPT = 20


@dataclass(frozen=True)
class Delivery:
    """One message to one notifier.

    Attributes:
        notifier: The notifier's name.
        due: When the next attempt is due, if there is one.
        attempts: Attempts so far, a running one included.
        sent_at: When the notifier accepted it; None before.
        problem: The error of the last attempt.
    """

    notifier: str
    due: datetime
    attempts: int = 0
    sent_at: datetime | None = None
    problem: str = ""

    @property
    def open(self) -> bool:
        """Whether another attempt is due, now or later."""
        return self.sent_at is None and self.attempts < MOST_ATTEMPTS


@dataclass(frozen=True)
class Outgoing:
    """One message and its deliveries."""

    message: Message
    deliveries: tuple[Delivery, ...]

    @property
    def open(self) -> bool:
        """Whether a delivery is open."""
        return any(delivery.open for delivery in self.deliveries)


Outbox = tuple[Outgoing, ...]
"""The oldest first. The last ones stay after their delivery, for people who look them up."""


def put(outbox: Outbox, messages: Sequence[Message], names: Callable[[Message], Sequence[str]]) -> Outbox:
    """Add messages to send.

    Args:
        outbox: The outbox.
        messages: New messages.
        names: The notifiers that get a message.
    """
    added = (
        Outgoing(message, tuple(Delivery(name, message.at) for name in names(message)))
        for message in messages
    )
    both = (*outbox, *added)
    return tuple(one for number, one in enumerate(both) if one.open or number >= len(both) - _KEPT)


def also_to(outbox: Outbox, message: Message, names: Sequence[str], now: datetime) -> Outbox:
    """Add notifiers to those that get a message."""

    def more(one: Outgoing) -> Outgoing:
        known = {delivery.notifier for delivery in one.deliveries}
        added = tuple(Delivery(name, now) for name in names if name not in known)
        return replace(one, deliveries=(*one.deliveries, *added))

    return tuple(more(one) if one.message.id == message.id else one for one in outbox)


def to_send(outbox: Outbox, now: datetime) -> list[tuple[Message, str]]:
    """Return messages that are due, with their notifiers. An incident's earlier messages come first."""
    found = []
    waited: set[tuple[str, str]] = set()
    for one in outbox:
        for delivery in one.deliveries:
            line = (delivery.notifier, one.message.incident.id)
            if not delivery.open or line in waited:
                continue
            waited.add(line)
            if delivery.due <= now:
                found.append((one.message, delivery.notifier))
    return found


def is_open(outbox: Outbox) -> bool:
    """Whether a message has an open delivery."""
    return any(one.open for one in outbox)


def attempted(outbox: Outbox, message: Message, notifier: str, now: datetime) -> Outbox:
    """Count an attempt that is about to be made; the next one is due after a gap that doubles."""

    def count(delivery: Delivery) -> Delivery:
        gap = _FIRST_GAP * (1 << delivery.attempts)
        return replace(delivery, attempts=delivery.attempts + 1, due=now + gap)

    return _changed(outbox, message, notifier, count)


def succeeded(outbox: Outbox, message: Message, notifier: str, now: datetime) -> Outbox:
    """Record that a notifier has accepted a message."""
    return _changed(outbox, message, notifier, lambda one: replace(one, sent_at=now, problem=""))


def failed(outbox: Outbox, message: Message, notifier: str, problem: str) -> Outbox:
    """Record that an attempt failed."""
    return _changed(outbox, message, notifier, lambda one: replace(one, problem=problem))


def attempts(outbox: Outbox, message: Message, notifier: str) -> int:
    """Attempts so far to deliver a message to a notifier."""
    deliveries = (delivery for one in outbox if one.message.id == message.id for delivery in one.deliveries)
    return max((delivery.attempts for delivery in deliveries if delivery.notifier == notifier), default=0)


def _changed(
    outbox: Outbox, message: Message, notifier: str, change: Callable[[Delivery], Delivery]
) -> Outbox:
    return tuple(
        replace(
            one,
            deliveries=tuple(change(d) if d.notifier == notifier else d for d in one.deliveries),
        )
        if one.message.id == message.id
        else one
        for one in outbox
    )
