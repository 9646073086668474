"""Records that are no events, one for each reason a stream has for a dead letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from proof.traffic.records import DEAD, Record
from proof.traffic.topics.scenarios import Topic

# A stream takes a mebibyte by default; one byte more is too large.
OVERSIZE = 1_048_577


class Draft(NamedTuple):
    """A valid event before it is written, to be broken.

    Attributes:
        event_id: Its id, new.
        key_field: Name of its key.
        key: Its key.
        members: Its own fields, as in `stories.Step`.
        at: Its time, as it is on the wire.
    """

    event_id: str
    key_field: str
    key: str
    members: str
    at: str

    def value(self) -> bytes:
        """The event as it is sent."""
        return (
            f'{{"event_id":"{self.event_id}","{self.key_field}":"{self.key}",'
            f'{self.members},"event_time":"{self.at}"}}'
        ).encode()


Break = Callable[[Draft], tuple[bytes | None, str | None]]


def _time(text: str) -> Break:
    return lambda draft: (draft._replace(at=text).value(), "event_time")


# By the reason: what is sent, and the field that is wrong. In the order of `validation.Reason`.
_BREAKS: dict[str, Break] = {
    "empty_record": lambda draft: (None, None),
    "not_utf8": lambda draft: (draft.value().replace(b'"event_id":"', b'"event_id":"\xff\xfe', 1), None),
    "malformed_json": lambda draft: (draft.value()[:-1], None),
    "not_an_object": lambda draft: (b"[" + draft.value() + b"]", None),
    "missing_field": lambda draft: (draft._replace(key_field="unknown").value(), draft.key_field),
    "wrong_type": lambda draft: (
        draft.value().replace(b'"event_id":"', b'"event_id":7,"was":"', 1),
        "event_id",
    ),
    "empty_field": lambda draft: (draft._replace(key="  ").value(), draft.key_field),
    "value_out_of_range": lambda draft: (draft._replace(event_id="x" * 1025).value(), "event_id"),
    "event_time_unparsable": _time("2025-01-06T00:00:00"),
    "event_time_too_old": _time("1999-12-31T23:59:59.999Z"),
    "event_time_in_future": _time("9999-12-31T23:59:59.999Z"),
}
KINDS = tuple(_BREAKS)


def malformed(topic: Topic, number: int, draft: Draft) -> Record:
    """Break an event; `number` chooses how, and all ways come in turn."""
    number %= len(KINDS) + len(topic.broken)
    key = draft.key.encode()
    if number >= len(KINDS):
        way = topic.broken[number - len(KINDS)]
        return Record(DEAD, key, draft._replace(members=way.members).value(), way.reason, way.field)
    reason = KINDS[number]
    value, field = _BREAKS[reason](draft)
    return Record(DEAD, key, value, reason, field)


def oversized(draft: Draft) -> Record:
    """An event with so much padding that no stream takes it."""
    missing = OVERSIZE - len(draft.value()) - len(',"pad":""')
    value = draft._replace(members=f'{draft.members},"pad":"{"x" * missing}"').value()
    return Record(DEAD, draft.key.encode(), value, "record_too_large", None)
