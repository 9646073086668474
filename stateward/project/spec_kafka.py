"""The sections `source`, `event_time` and `kafka_sink` of a stream's YAML: what it reads and writes."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from stateward.project.spec_fields import Count, Duration, Instant, Name, Part, Span
from stateward.project.unexpected_value import UnexpectedValueError

Topic = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]


class Tick(Part):
    """How event time advances while the topic is silent."""

    mode: Literal["auto", "wall_clock", "record", "off"] = "auto"
    interval: Duration = timedelta(seconds=5)


class Source(Part):
    """The Kafka topic a stream reads, and which of its records are believable.

    `topics` stands in place of `topic` for a stream that reads several; each has `topic_partitions` if it is
    made.
    """

    topics: Annotated[list[Topic], Field(min_length=1)] | None = None
    topic: Topic | None = Field(default=None, validate_default=True)
    topic_partitions: Count = 3
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    max_records_per_batch: Count = 100_000
    not_before: Instant = datetime(2000, 1, 1, tzinfo=UTC)
    max_ahead: Duration = timedelta(hours=1)
    max_record_bytes: Count = 1_048_576
    tick: Tick = Tick()

    @field_validator("topic")
    @classmethod
    def _one_or_several(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "topics" not in info.data:  # it is wrong itself
            return value
        topics = info.data["topics"]
        if value is None and topics is None:
            raise PydanticKnownError("missing")
        if value is not None and topics is not None:
            raise UnexpectedValueError("either topic or topics, not both")
        if topics is not None and len(set(topics)) != len(topics):
            raise UnexpectedValueError("each of topics once")
        return value

    @property
    def names(self) -> tuple[str, ...]:
        """The topics, one or several."""
        return tuple(self.topics or filter(None, [self.topic]))


class EventTime(Part):
    """How long a stream waits for events that come out of order.

    With `clock: processing` it waits for none; an id is known as a duplicate for that long. `by_topic` and
    `watermark_policy` are for streams in which each topic has a watermark (docs/topics.md).
    """

    allowed_lateness: Span
    by_topic: dict[Topic, Span] = Field(default={})
    watermark_policy: Literal["min", "max"] = "min"

    @property
    def longest_lateness(self) -> timedelta:
        """The largest allowed lateness."""
        return max([self.allowed_lateness, *self.by_topic.values()])


class KafkaSink(Part):
    """Tables whose rows go to Kafka topics too, in a transaction per batch; by table its topic.

    A missing topic has `source.topic_partitions` if it is made.
    """

    topics: Annotated[dict[Name, Topic], Field(min_length=1)]

    def check(self, tables: Collection[str], read: Collection[str]) -> None:
        """Check it against the rest of the YAML.

        Args:
            tables: The stream's own tables.
            read: The topics that the stream reads.
        """
        if unknown := sorted(self.topics.keys() - set(tables)):
            raise UnexpectedValueError(
                f"kafka_sink.topics to have topics for some of tables {tables}, not for {unknown}"
            )
        topics = list(self.topics.values())
        if set(topics) & set(read) or len(set(topics)) != len(topics):
            raise UnexpectedValueError(
                "kafka_sink.topics to be a topic of its own for each table, none that the stream reads"
                f" ({', '.join(sorted(read))})"
            )
