"""The embedded broker itself: topics, large records, restart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stateward.platform.topics import BrokerUnreachableError, TopicMissingError, ensure_topic, partition_count
from tests.support.kafka.broker import RunningBroker

pytestmark = pytest.mark.e2e


def test_a_missing_topic_is_created_once_and_keeps_its_partitions(broker: RunningBroker) -> None:
    assert ensure_topic(broker.bootstrap, "made", 3, create=True) == 3
    assert ensure_topic(broker.bootstrap, "made", 7, create=True) == 3


def test_a_missing_topic_is_an_error_where_it_may_not_be_created(broker: RunningBroker) -> None:
    with pytest.raises(TopicMissingError, match="'absent' does not exist"):
        ensure_topic(broker.bootstrap, "absent", 3, create=False)
    assert partition_count(broker.bootstrap, "absent") == 0, "asking for a topic must not create it"


def test_no_broker_is_named_with_its_address() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"localhost:1\b"):
        partition_count("localhost:1", "any", timeout_s=1)


def test_topics_survive_a_kill(new_broker: Callable[[], RunningBroker]) -> None:
    own = new_broker()
    own.create_topic("kept", 2)
    own.stop()
    own.start()
    assert partition_count(own.bootstrap, "kept") == 2
    said = own.log.read_text()
    assert said.count("Kafka Server started") == 2, "a broker without a log cannot be looked into"
