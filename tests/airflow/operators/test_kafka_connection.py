"""Kafka from an Airflow connection: which source wins, where a password goes, and a stream that reads."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.models import Connection
from airflow.utils.session import create_session
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy import delete

from stateward.airflow.kafka_connection import with_kafka
from stateward.airflow.spark_submit import build_command
from stateward.cli.streams.connections import check_connections
from stateward.contract.clients.kafka import client_settings
from stateward.contract.names import ENV_KAFKA_CLIENT, TICK_TOPICS
from stateward.contract.process_identity import host_identity
from stateward.contract.storage import read_json
from stateward.contract.stream_control import Launch
from stateward.control.launchers import processes
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.launchers.launch import SparkLauncher, resolved_configuration
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import load_spec
from tests.airflow.conftest import ROOT
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.secured_broker import PASSWORD, SecuredBroker
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.airflow

STREAM = "user_sessions"
LOGIN = {
    "bootstrap.servers": "kafka-1:9093,kafka-2:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "streams",
    "sasl.password": "s3cret = #1",
    "group.id": "of Airflow's own clients",
    "socket.keepalive.enable": True,
}
EVENT = {"event_id": "e", "user_id": "u", "event_time": "2026-01-01T00:00:00Z", "event_type": "view"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation about whose Kafka the environment says nothing."""
    for name in [name for name in os.environ if name.startswith("STATEWARD_KAFKA")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STATEWARD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def connect(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], conn_type: str = "kafka") -> None:
    connection = {"conn_type": conn_type, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))


def test_address_and_login_are_those_of_the_connection(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, LOGIN)
    settings = with_kafka(Settings())
    assert settings.kafka_bootstrap == LOGIN["bootstrap.servers"]
    assert (settings.embedded, settings.may_create_topics) == (False, False)

    assert settings.kafka_client is not None and settings.kafka_client.is_relative_to(home)
    monkeypatch.setenv(ENV_KAFKA_CLIENT, str(settings.kafka_client))
    found = client_settings(settings.kafka_bootstrap)
    assert {name: found[name] for name in LOGIN if name in found} == {
        **{name: value for name, value in LOGIN.items() if name != "group.id"},
        "socket.keepalive.enable": "true",
    }
    assert "group.id" not in found


def test_a_password_is_in_one_file_that_only_this_user_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, LOGIN)
    settings = with_kafka(Settings())
    assert settings.kafka_client is not None
    assert stat.S_IMODE(settings.kafka_client.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.kafka_client.parent.stat().st_mode) == 0o700
    assert [path.name for path in settings.kafka_client.parent.iterdir()] == ["kafka_default.properties"]
    config = resolved_configuration(load_spec(STREAM, ROOT / "include" / "streams"), settings, "r1")
    assert "s3cret" not in f"{settings!r} {settings.environment()} {config}"


def test_a_changed_password_is_written_at_the_next_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, LOGIN)
    file = with_kafka(Settings()).kafka_client
    assert file is not None
    connect(monkeypatch, {**LOGIN, "sasl.password": "another"})
    assert with_kafka(Settings()).kafka_client == file
    assert "sasl.password = another\n" in file.read_text()


def test_an_address_in_the_settings_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, LOGIN)
    monkeypatch.setenv("STATEWARD_KAFKA_BOOTSTRAP", "mine:9092")
    settings = with_kafka(Settings())
    assert (settings.kafka_bootstrap, settings.kafka_client) == ("mine:9092", None)
    monkeypatch.delenv("STATEWARD_KAFKA_BOOTSTRAP")
    monkeypatch.setenv("AIRFLOW_HOME", str(home.parent))
    (home.parent / "airflow.cfg").write_text("[stateward]\nkafka_bootstrap = file:9092\n")
    assert with_kafka(Settings()).kafka_bootstrap == "file:9092"


def test_a_file_in_the_settings_wins_over_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, LOGIN)
    monkeypatch.setenv("STATEWARD_KAFKA_CLIENT", "/etc/kafka.properties")
    settings = with_kafka(Settings())
    assert settings.kafka_bootstrap == LOGIN["bootstrap.servers"]
    assert settings.kafka_client == Path("/etc/kafka.properties")


def test_without_a_connection_the_default_stays(metadata_database: Path) -> None:
    assert with_kafka(Settings()) == Settings()


def test_another_connection_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__STATEWARD__KAFKA_CONN_ID", "events")
    extra = {"bootstrap.servers": "k:9092"}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"conn_type": "kafka", "extra": extra}))
    settings = with_kafka(Settings())
    assert (settings.kafka_bootstrap, settings.kafka_client) == ("k:9092", None)


def test_a_connection_that_a_setting_names_has_to_exist(
    metadata_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_KAFKA_CONN_ID", "events")
    with pytest.raises(LaunchError, match=r"'events', found none\. Create it .* AIRFLOW_CONN_EVENTS="):
        with_kafka(Settings())


def test_validate_finds_a_connection_in_the_database_of_airflow(
    metadata_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    monkeypatch.setenv("STATEWARD_KAFKA_CONN_ID", "validated_events")
    spec = load_spec(STREAM, ROOT / "include" / "streams")
    with create_session() as session:
        session.add(Connection(conn_id=spec.spark.conn_id, conn_type="spark"))
    try:
        [problem], notes = check_connections(Settings(), [spec])
    finally:
        with create_session() as session:
            session.execute(delete(Connection).where(Connection.conn_id == spec.spark.conn_id))
    assert "'validated_events'" in problem and str(metadata_database) in problem
    assert notes == []


@pytest.mark.parametrize(
    ("conn_type", "extra", "message"),
    [
        ("http", {"bootstrap.servers": "k:1"}, "expected the type 'kafka', found 'http'"),
        ("kafka", {"security.protocol": "SSL"}, "expected 'bootstrap.servers' in its extra"),
        ("kafka", {"bootstrap.servers": "k:1", "ssl.ca.pem": "a\nb"}, "expected as 'ssl.ca.pem' one line"),
    ],
)
def test_a_connection_that_cannot_be_used_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, conn_type: str, extra: dict[str, Any], message: str
) -> None:
    connect(monkeypatch, extra, conn_type)
    with pytest.raises(LaunchError, match=message):
        with_kafka(Settings())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[RunningBroker, SecuredBroker]]:
    """A broker with a password and TLS, and an empty topic."""
    secured = SecuredBroker.in_folder(tmp_path / "kafka")
    running = RunningBroker(secured, client=secured.client())
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(ENV_KAFKA_CLIENT, str(tmp_path / "admin.properties"))
        try:
            running.start()
            secured.write_client_file(tmp_path / "admin.properties")
            running.create_topic("user_events", 1)
            yield running, secured
        finally:
            running.stop()


@ci_full
def test_a_stream_reads_by_the_connection_alone_and_no_topic_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: tuple[RunningBroker, SecuredBroker]
) -> None:
    running, secured = broker
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    connect(monkeypatch, {"bootstrap.servers": running.bootstrap, **secured.client()})
    streams = Path(shutil.copytree(ROOT / "include" / "streams", tmp_path / "streams"))
    document = yaml.safe_load((streams / f"{STREAM}.yaml").read_text())
    document["source"]["tick"] = {"mode": "off"}
    (streams / f"{STREAM}.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("STATEWARD_STREAMS", str(streams))
    enter: dict[str, str | int | float | bool] = {**secured.client(), "bootstrap.servers": running.bootstrap}
    admin, ticks = AdminClient(enter), f"{TICK_TOPICS}{STREAM}"
    # As an administrator makes it who grants no right to create topics (docs/kafka.md).
    made = NewTopic(ticks, 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([made])[ticks].result(PATIENCE_S)
    producer = Producer(enter)
    producer.produce("user_events", json.dumps(EVENT).encode(), b"u")
    assert producer.flush(PATIENCE_S) == 0
    monkeypatch.delenv(ENV_KAFKA_CLIENT)

    settings = Settings()
    layout = Layout.of(settings)
    launcher = SparkLauncher(load_spec(STREAM, streams), settings, build_command, with_kafka)
    now = datetime.now(UTC)
    prepared = launcher.prepare("run-1", now, None)
    launcher.start(Launch("run-1", now, host_identity(), str(prepared.log)))
    try:

        def accepted() -> bool:
            return (read_json(layout.status_uri(STREAM)) or {}).get("accepted") == 1

        wait_until(accepted, PATIENCE_S, lambda: prepared.log.read_text()[-3000:], poll_s=0.5)
    finally:
        assert processes.kill(processes.find_by_env(settings.home, STREAM), timeout_s=20) == []
    # Kafka makes `__consumer_offsets` itself when librdkafka asks for a group's coordinator.
    topics = {name for name in admin.list_topics(timeout=20).topics if not name.startswith("__")}
    assert topics == {"user_events", ticks}
    texts = [path for path in settings.home.rglob("*") if path.is_file() and path.suffix in (".json", ".log")]
    assert texts and not [path for path in texts if PASSWORD in path.read_text(errors="replace")]
