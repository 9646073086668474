"""The sections `source`, `event_time` and `kafka_sink` of a stream's YAML: what it reads and writes."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from stateward.project.spec_fields import Count, Duration, Instant, Name, Part, Span
from stateward.project.unexpected_value import UnexpectedValueError

Topic = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$", json_schema_extra={"$comment": "topic"})]


class Tick(Part):
    """How event time advances while the topic is silent (docs/architecture.md)."""

    mode: Literal["auto", "wall_clock", "record", "off"] = Field(
        "auto",
        description="`wall_clock`: with the broker's time. `record`: by the records that `stateward replay"
        " --tick` writes at the end. `auto`: `record` for a replay, else `wall_clock`. `off`: neither",
    )
    interval: Duration = Field(timedelta(seconds=5), description="how often, where a tick is repeated")


class Source(Part):
    """The Kafka topic that a stream reads, and which of its records are believable."""

    topics: Annotated[list[Topic], Field(min_length=1)] | None = Field(
        None, description="in place of `topic`, for a stream that reads several (docs/topics.md)"
    )
    topic: Topic | None = Field(
        default=None, validate_default=True, description="the topic; either this or `topics` must be set"
    )
    topic_partitions: Count = Field(3, description="partitions of a topic that Stateward creates")
    starting_offsets: Literal["earliest", "latest"] = Field(
        "earliest", description="where the first start reads from; later ones continue"
    )
    max_records_per_batch: Count = Field(200_000, description="the most records of one batch")
    target_batch_duration: Span = Field(
        timedelta(seconds=2),
        description="how long a batch should last: where it takes longer, the next ones have fewer records."
        " 0s for any time",
    )
    not_before: Instant = Field(
        datetime(2000, 1, 1, tzinfo=UTC), description="an event with an older time is a dead letter"
    )
    max_ahead: Duration = Field(
        timedelta(hours=1), description="an event that is further ahead of the broker's time is a dead letter"
    )
    max_record_bytes: Count = Field(1_048_576, description="a larger record is a dead letter (bytes)")
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
    """How long a stream waits for events that come out of order."""

    allowed_lateness: Span = Field(
        description="how far the watermark stays behind the newest event, and how long an id is known as a"
        " duplicate; with `clock: processing` the latter only"
    )
    by_topic: dict[Topic, Span] = Field(
        default={}, description="by topic the allowed lateness, where each has a watermark (docs/topics.md)"
    )
    watermark_policy: Literal["min", "max"] = Field(
        "min", description="whether the slowest or the fastest of those watermarks counts"
    )

    @property
    def longest_lateness(self) -> timedelta:
        """The largest allowed lateness."""
        return max([self.allowed_lateness, *self.by_topic.values()])


class KafkaSink(Part):
    """Tables whose rows go to Kafka topics too, in a transaction per batch (docs/kafka-sink.md)."""

    topics: dict[Name, Topic] = Field(
        min_length=1,
        description="by table its topic; one that Stateward creates has `source.topic_partitions` partitions",
    )

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
