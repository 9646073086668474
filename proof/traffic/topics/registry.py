"""The topics that traffic is made for. Another topic is a module with its stories, and an entry here."""

from __future__ import annotations

from collections.abc import Sequence

from proof.traffic.topics.device_readings import DEVICE_READINGS
from proof.traffic.topics.payments import PAYMENTS
from proof.traffic.topics.scenarios import Topic
from proof.traffic.topics.security_events import SECURITY_EVENTS
from proof.traffic.topics.user_activity import USER_ACTIVITY
from proof.traffic.topics.user_events import USER_EVENTS

_ALL = (USER_EVENTS, USER_ACTIVITY, PAYMENTS, DEVICE_READINGS, SECURITY_EVENTS)
TOPICS = {topic.name: topic for topic in _ALL}


class UnknownTopicError(ValueError):
    """No traffic is made for that topic."""


def topics_named(names: Sequence[str]) -> tuple[Topic, ...]:
    """Return these topics, or all for no names.

    Raises:
        UnknownTopicError: One of them has no stories.
    """
    unknown = [name for name in names if name not in TOPICS]
    if unknown:
        raise UnknownTopicError(f"--topic: expected one of {', '.join(TOPICS)}, found {', '.join(unknown)}")
    return tuple(topic for topic in _ALL if not names or topic.name in names)
