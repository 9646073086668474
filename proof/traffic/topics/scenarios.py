"""Stories: what one key does in a short while, told as steps. A topic's are in the module of that name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

SECOND_MS = 1_000
MINUTE_MS = 60_000


class Step(NamedTuple):
    """One event of a story.

    Attributes:
        after_ms: When, since the story began.
        members: The event's own fields as JSON members, without braces.
    """

    after_ms: int
    members: str


@dataclass(frozen=True)
class Story:
    """A story.

    Attributes:
        name: Its name.
        tell: Makes its steps, at least one, in any order.
        weight: Its frequency, relative to the topic's other stories.
    """

    name: str
    tell: Callable[[Random], list[Step]]
    weight: float = 1.0


@dataclass(frozen=True)
class Broken:
    """A way in which one field of a topic's records can be wrong.

    Attributes:
        reason: The reason in `dead_letters`.
        field: The field.
        members: The fields of such a record, as in `Step.members`.
    """

    reason: str
    field: str
    members: str


@dataclass(frozen=True)
class Topic:
    """What is sent to one topic.

    Attributes:
        name: The topic.
        key: Field whose value is the key.
        prefix: What the names of its keys begin with.
        weight: Its share of all records, relative to the other topics.
        ordinary: The story of keys that come again and again: most of what is sent.
        stories: Those with keys of their own.
        broken: Ways in which its own fields can be wrong, beside those of every topic (`malformed`).
    """

    name: str
    key: str
    prefix: str
    weight: float
    ordinary: Story
    stories: tuple[Story, ...]
    broken: tuple[Broken, ...] = field(default=())

    def story(self, name: str) -> Story:
        """Return the story of that name."""
        return next(story for story in self.stories if story.name == name)
