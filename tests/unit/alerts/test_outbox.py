"""How often, when and in which order messages are sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stateward.alerts.incident import Incident, Kind, Message
from stateward.alerts.incident_text import Words
from stateward.alerts.outbox import MOST_ATTEMPTS, Outbox, attempted, failed, is_open, put, succeeded, to_send

T0 = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def message(kind: Kind = "opened", name: str = "s-driver-1") -> Message:
    return Message(kind, T0, Incident(name, "s", "driver", Words("t", "c", "l", "n"), T0, T0))


def box(*messages: Message, names: tuple[str, ...] = ("mail",)) -> Outbox:
    return put((), messages, lambda _: names)


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_a_message_is_sent_once_to_each() -> None:
    outbox = box(message(), names=("mail", "chat"))
    assert [name for _, name in to_send(outbox, T0)] == ["mail", "chat"]
    outbox = succeeded(attempted(outbox, message(), "mail", T0), message(), "mail", T0)
    assert [name for _, name in to_send(outbox, after(9999))] == ["chat"]
    outbox = succeeded(attempted(outbox, message(), "chat", T0), message(), "chat", T0)
    assert not is_open(outbox)
    assert to_send(outbox, after(9999)) == []


def test_what_fails_is_tried_five_times_with_growing_gaps() -> None:
    outbox, seconds, tried = box(message()), 0, []
    while is_open(outbox):
        if to_send(outbox, after(seconds)):
            tried.append(seconds)
            outbox = attempted(outbox, message(), "mail", after(seconds))
            outbox = failed(outbox, message(), "mail", "ConnectionError")
        seconds += 1
    assert tried == [0, 30, 90, 210, 450]
    assert len(tried) == MOST_ATTEMPTS
    assert outbox[0].deliveries[0].problem == "ConnectionError"


def test_an_attempt_that_nobody_lived_to_note_the_end_of_is_made_again_and_not_without_end() -> None:
    outbox = box(message())
    for _ in range(MOST_ATTEMPTS):
        assert is_open(outbox)
        outbox = attempted(outbox, message(), "mail", T0)
        assert to_send(outbox, after(1)) == []
    assert not is_open(outbox)


def test_a_resolution_waits_for_what_came_before_it_of_the_same_incident() -> None:
    outbox = box(message("opened"), message("resolved"), message("opened", "s-warn-2"))
    assert [found.id for found, _ in to_send(outbox, T0)] == ["s-driver-1/opened", "s-warn-2/opened"]
    outbox = attempted(outbox, message("opened"), "mail", T0)
    assert [found.id for found, _ in to_send(outbox, after(1))] == ["s-warn-2/opened"]
    outbox = succeeded(outbox, message("opened"), "mail", after(2))
    assert "s-driver-1/resolved" in [found.id for found, _ in to_send(outbox, after(3))]


def test_the_last_ones_are_kept_and_what_is_open_always() -> None:
    outbox = box(message())
    for number in range(30):
        outbox = put(outbox, [message(name=f"s-driver-{number + 2}")], lambda _: ())
    assert len(outbox) == 21
    assert outbox[0].message.incident.id == "s-driver-1"
    assert outbox[-1].message.incident.id == "s-driver-31"
