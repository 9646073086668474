"""The file by which Kafka's clients enter a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.contract.clients.kafka import KafkaClientError, client_settings
from stateward.contract.names import ENV_KAFKA_CLIENT
from stateward.contract.stream_status import Cause
from stateward.platform.topics import BrokerUnreachableError, partition_count
from stateward.project.settings import Settings
from stateward.runtime.cause import cause_of
from stateward.runtime.kafka.broker import Broker
from tests.support.kafka.secured_broker import PASSWORD, SecuredBroker


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENV_KAFKA_CLIENT, str(tmp_path / "kafka.properties"))
    return tmp_path / "kafka.properties"


def test_without_a_file_there_is_the_address_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_KAFKA_CLIENT, "")
    assert client_settings("kafka:9092").keys() == {"bootstrap.servers", "logger"}
    assert Settings().kafka_client is None


def test_what_stands_in_the_file_goes_to_the_client(file: Path) -> None:
    broker = SecuredBroker.in_folder(file.parent)
    broker.write_client_file(file)
    found, client = client_settings("kafka:9092"), broker.client()
    assert "=" in PASSWORD and "#" in PASSWORD
    assert {name: found[name] for name in client} == client
    assert found["bootstrap.servers"] == "kafka:9092"


def test_a_file_that_is_not_there_is_named_with_its_variable(file: Path) -> None:
    with pytest.raises(KafkaClientError, match=ENV_KAFKA_CLIENT) as raised:
        client_settings("kafka:9092")
    assert str(file) in str(raised.value)


@pytest.mark.parametrize("line", ["isolation.level=read_uncommitted", "a password alone", "group.id=mine"])
def test_no_client_takes_what_changes_what_it_reads(file: Path, line: str) -> None:
    file.write_text(f"sasl.mechanisms=PLAIN\n{line}\n")
    with pytest.raises(KafkaClientError, match="line 2"):
        partition_count("localhost:1", "events", 0.1)
    with pytest.raises(KafkaClientError, match="line 2") as raised:
        Broker("kafka:9092").partitions("events")
    assert cause_of(raised.value) == Cause("configuration", lasting=True)
    assert "alone" not in str(raised.value) and "uncommitted" not in str(raised.value)


def test_what_librdkafka_does_not_take_is_said(file: Path) -> None:
    file.write_text("sasl.mechanism.of.old=PLAIN\n")
    with pytest.raises(KafkaClientError, match=r"sasl\.mechanism\.of\.old"):
        Broker("kafka:9092").partitions("events")


def test_the_command_line_says_what_librdkafka_does_not_take(file: Path) -> None:
    file.write_text("sasl.mechanism.of.old=PLAIN\n")
    with pytest.raises(BrokerUnreachableError, match=r"sasl\.mechanism\.of\.old"):
        partition_count("localhost:1", "events", 0.1)
