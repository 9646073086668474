"""The target of traffic: the topics of a broker."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from proof.traffic.records import Slice
from stateward.platform.topics import ensure_topic
from stateward.project.settings import Settings
from stateward.replay.pacing import Pacer
from stateward.replay.send import Sender


class KafkaTarget:
    """Sends slices, and waits for the broker after each.

    Attributes:
        partitions: Number of partitions by topic.
    """

    def __init__(self, settings: Settings, topics: tuple[str, ...], partitions: int, pacer: Pacer) -> None:
        """Create missing topics.

        Raises:
            TopicMissingError: one is not, and may not be created.
            TopicForbiddenError: one may not be described, created or written.
            BrokerUnreachableError: no broker answered.
        """
        bootstrap = settings.kafka_bootstrap
        self.partitions = {
            topic: ensure_topic(
                bootstrap, topic, partitions, create=settings.may_create_topics, to_write=True
            )
            for topic in topics
        }
        self._senders = {topic: Sender(bootstrap, topic) for topic in topics}
        self._pacer = pacer

    def send(self, piece: Slice) -> None:
        """Send the records of a slice; when this returns, the broker has them all.

        Raises:
            DeliveryError: it has not.
        """
        records = ((record.key, record.value) for record in piece.records)
        self._senders[piece.topic].send_records(records, self._pacer)

    def tick(self, moments: Mapping[str, datetime]) -> None:
        """End each topic as a replay does: a tick in every partition.

        Raises:
            DeliveryError: one was not acknowledged.
        """
        for topic, moment in moments.items():
            self._senders[topic].send_ticks(moment, self.partitions[topic])
