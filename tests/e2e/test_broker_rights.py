"""A cluster that grants rights one by one: what lacks which says so, and each right of the page is enough."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from stateward.contract.names import ENV_KAFKA_CLIENT
from stateward.platform.topics import TopicForbiddenError, TopicMissingError, ensure_topic, partition_count
from stateward.replay.pacing import Pacer
from stateward.replay.send import Sender
from stateward.runtime.checkpoint.offsets import Range
from stateward.runtime.kafka.reader import ReadError, read
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.secured_broker import ADMIN, AuthorizingBroker

pytestmark = pytest.mark.e2e

RECORD = b'{"user_id": "ann"}'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AuthorizingBroker, str]]:
    """The broker, and its address; this process is the user without any right."""
    folder = tmp_path_factory.mktemp("kafka")
    definition = AuthorizingBroker.in_folder(folder)
    broker = RunningBroker(definition, client=definition.client(ADMIN))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(ENV_KAFKA_CLIENT, str(folder / "client"))
        definition.write_client_file(folder / "client")
        broker.start()
        yield definition, broker.bootstrap
        broker.stop()


def send(bootstrap: str, topic: str) -> int:
    """Write one record as `stateward replay` does, and return how many arrived."""
    sender = Sender(bootstrap, topic)
    sender.send_records([(b"ann", RECORD)], Pacer(None, time.monotonic, time.sleep))
    return sender.outcome.sent


def test_a_replay_names_the_right_that_it_lacks(cluster: tuple[AuthorizingBroker, str]) -> None:
    definition, bootstrap = cluster
    for create, missing in ((False, "Describe"), (True, "Describe")):
        with pytest.raises(TopicForbiddenError, match=rf"may not {missing} it\. Give it the right {missing}"):
            ensure_topic(bootstrap, "events", 2, create=create)
    definition.grant("DESCRIBE", "events")
    assert partition_count(bootstrap, "events") == 0, "asking for a topic must not create it"
    with pytest.raises(TopicMissingError, match="'events' does not exist"):
        ensure_topic(bootstrap, "events", 2, create=False)
    with pytest.raises(TopicForbiddenError, match="may not Create it"):
        ensure_topic(bootstrap, "events", 2, create=True)
    definition.grant("CREATE", "events")
    assert ensure_topic(bootstrap, "events", 2, create=True) == 2
    with pytest.raises(TopicForbiddenError, match=r"may not Write it\. Give it the right Write"):
        ensure_topic(bootstrap, "events", 2, create=True, to_write=True)
    definition.grant("WRITE", "events")
    # An idempotent producer needs no right on the cluster.
    assert ensure_topic(bootstrap, "events", 2, create=True, to_write=True) == 2
    assert send(bootstrap, "events") == 1


def test_a_reader_takes_no_group_and_names_the_right_that_it_lacks(
    cluster: tuple[AuthorizingBroker, str],
) -> None:
    definition, bootstrap = cluster
    for right in ("DESCRIBE", "CREATE", "WRITE"):
        definition.grant(right, "read")
    ensure_topic(bootstrap, "read", 1, create=True)
    assert send(bootstrap, "read") == 1
    whole = [Range("read", 0, 0, 1)]
    with pytest.raises(ReadError, match="topic read: the user of the Kafka clients may not Read it"):
        list(read(bootstrap, whole))
    definition.grant("READ", "read")
    # The client has no right on any group, and gets the refusal in the middle of the records.
    found = [message.value() for messages in read(bootstrap, whole) for message in messages]
    assert found == [RECORD]
