"""Writes a batch's rows to Kafka topics too: one transaction per batch, after the commits of the tables.

The transaction also commits, as an offset of a consumer group, which batch it contains. A driver opens its
producer, by which Kafka ends every open transaction of an earlier one and rejects its later ones, and only
then reads that offset. So a batch that runs again is sent again if its transaction was not committed, and is
not if it was: a reader of committed records sees each row exactly once.

Every record has an id from stream, generation, batch, table and number of the row. A batch that runs again
has the same ids, so a reader of uncommitted records can drop what it has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from stateward.contract.clients.kafka import client_settings
from stateward.runtime.api.tables import Table
from stateward.runtime.kafka.broker import BrokerAwayError
from stateward.runtime.sink.fence import CheckLease

ID, EPOCH = "stateward-id", "stateward-epoch"
"""Headers of a record: its id, and the epoch of the lease under which it was sent."""

_TIMEOUT_S = 10.0
_ABORT_S = 5.0
# Between two tries of a request, as while a new cluster chooses the coordinator of the group.
_PAUSES_S = (0.1, 0.3, 1.0, 3.0)
_FULL_S = 0.1
_PASSING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
)
# The broker's own limit is 15 minutes. An open transaction makes readers of committed records wait.
_TRANSACTION_MS = 60_000
# Times in ISO 8601, decimal numbers as text, bytes in Base64.
_json = msgspec.json.Encoder().encode

T = TypeVar("T")


class TopicSinkError(RuntimeError):
    """Kafka rejects a batch: a right is missing, a row is too large, or another producer has the name."""


class TopicSink:
    """The topics of one stream; its producer is opened with the first batch that has rows.

    Args:
        bootstrap: Address of the cluster.
        stream: Name of the stream.
        topics: The topic of each table that is sent.
        key: The stream's key; the value of a column of this name is the key of a record.
        name: The transactional id, and the group of the offset: the same for every driver of the stream.
    """

    def __init__(self, bootstrap: str, stream: str, topics: Mapping[str, str], key: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._stream = stream
        self._topics = dict(topics)
        self._key = key
        self._name = name
        self._producer: Producer | None = None
        self._group: Any = None
        self._sent: tuple[str, int] | None = None

    def send(
        self,
        generation: str,
        batch_id: int,
        rows: Mapping[str, tuple[Table, pa.Table]],
        check: CheckLease,
    ) -> None:
        """Send the rows of a batch in one transaction, unless Kafka has the batch.

        Args:
            generation: Id of the streaming query.
            batch_id: The batch.
            rows: The stream's tables by name, with their rows; those without a topic are not sent.
            check: Checks the lease, after the producer is opened and again before the commit.

        Raises:
            LeaseLostError: The lease is lost.
            BrokerAwayError: Kafka has not confirmed the batch, of which all or nothing is committed.
            TopicSinkError: Kafka rejects the batch.
        """
        mine = [one for name, one in rows.items() if name in self._topics and one[1].num_rows]
        if not mine:
            return
        try:
            producer = self._producer or self._open()
            epoch = check()
            if self._sent is not None and self._sent[0] == generation and self._sent[1] >= batch_id:
                return
            producer.begin_transaction()
            for table, found in mine:
                self._produce(producer, table, found, f"{generation}/{batch_id}", epoch)
            self._commit(producer, generation, batch_id, check)
        except KafkaException as error:
            self._close()
            # Fenced by another driver: the lease says which of the two may go on.
            check()
            topics = ", ".join(sorted(self._topics[table.name] for table, _ in mine))
            failed = BrokerAwayError if _may_pass(error) else TopicSinkError
            raise failed(
                f"stream {self._stream}: expected Kafka at {self._bootstrap} to take batch {batch_id} for "
                f"{topics}, found: {error.args[0].str()}. The batch runs again, and is sent unless Kafka "
                "has it."
            ) from None
        except BaseException:
            self._close()
            raise
        self._sent = (generation, batch_id)

    def _open(self) -> Producer:
        """Open the producer, which ends all earlier ones, and read which batch is the last."""
        settings = client_settings(self._bootstrap)
        producer = Producer(
            {
                **settings,
                "transactional.id": self._name,
                "transaction.timeout.ms": _TRANSACTION_MS,
                # As Kafka's Java clients and Spark divide keys.
                "partitioner": "murmur2_random",
                "linger.ms": 5,
            }
        )
        _again(lambda: producer.init_transactions(_TIMEOUT_S))
        reader = Consumer(
            {
                **settings,
                "group.id": self._name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        try:
            (found,) = _again(lambda: reader.committed([self._marker()], timeout=_TIMEOUT_S))
            self._group = reader.consumer_group_metadata()
        finally:
            reader.close()
        self._sent = None
        if found.offset != OFFSET_INVALID and found.metadata:
            generation, _, batch = found.metadata.rpartition("/")
            self._sent = (generation, int(batch))
        self._producer = producer
        return producer

    def _marker(self, offset: int = OFFSET_INVALID, metadata: str = "") -> TopicPartition:
        """The group's offset, which has to be that of a topic that exists."""
        return TopicPartition(min(self._topics.values()), 0, offset, metadata)

    def _produce(self, producer: Producer, table: Table, rows: pa.Table, batch: str, epoch: int) -> None:
        topic = self._topics[table.name]
        ordered = _in_order(rows, table.identity(self._key))
        for number, row in enumerate(ordered.to_pylist()):
            key = row.get(self._key)
            headers: dict[str, str | bytes | None] = {
                ID: f"{self._stream}/{batch}/{table.name}/{number}",
                EPOCH: str(epoch),
            }
            while True:
                try:
                    producer.produce(
                        topic, _json(row), None if key is None else str(key).encode(), headers=headers
                    )
                    break
                except BufferError:
                    producer.poll(_FULL_S)
            producer.poll(0)

    def _commit(self, producer: Producer, generation: str, batch_id: int, check: CheckLease) -> None:
        marker = self._marker(batch_id + 1, f"{generation}/{batch_id}")
        _again(lambda: producer.send_offsets_to_transaction([marker], self._group, _TIMEOUT_S))
        check()
        _again(lambda: producer.commit_transaction(_TIMEOUT_S))

    def _close(self) -> None:
        """Give up the producer and its transaction; what cannot be ended now, the next producer ends."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.abort_transaction(_ABORT_S)


def _may_pass(error: KafkaException) -> bool:
    found = error.args[0]
    return bool(found.retriable()) or found.code() in _PASSING


def _again(request: Callable[[], T]) -> T:
    """Make a request, and again after pauses as long as this may help."""
    for pause_s in _PAUSES_S:
        try:
            return request()
        except KafkaException as error:
            if not _may_pass(error):
                raise
        threading.Event().wait(pause_s)
    return request()


def _in_order(rows: pa.Table, identity: tuple[str, ...]) -> pa.Table:
    """The rows by their identity; those of one identity stay in the order of the stream.

    Their order in a batch depends on which task ended first, and their numbers must not.
    """
    return rows.take(pc.sort_indices(rows, [(column, "ascending") for column in identity if column]))
