"""A cluster with a password: a stream waits until it has the right one, and reports why."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.contract.names import ENV_KAFKA_CLIENT
from stateward.platform.topics import BrokerUnreachableError, partition_count
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.secured_broker import PASSWORD, SecuredBroker
from tests.support.spark.launches import Launch
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.spark

EVENT = b'{"event_id":"e","user_id":"u","event_time":"2026-01-01T00:00:00Z","event_type":"view"}'


@ci_full
def test_a_stream_reads_once_its_password_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kafka.properties"
    monkeypatch.setenv(ENV_KAFKA_CLIENT, str(file))
    secured = SecuredBroker.in_folder(tmp_path / "kafka")
    broker = RunningBroker(secured, client=secured.client())
    launch = Launch(tmp_path, broker, "events", partitions=1)
    try:
        broker.start()
        secured.write_client_file(file)
        broker.create_topic("events", 1)
        secured.write_client_file(file, sasl_password="another")
        with pytest.raises(BrokerUnreachableError, match="Invalid username or password"):
            partition_count(broker.bootstrap, "events", 2)

        launch.start()
        wait_until(
            lambda: "Invalid username or password" in (launch.status().get("message") or ""),
            PATIENCE_S,
            lambda: f"the status says why the driver waits: {launch.status()}",
        )
        assert launch.status()["state"] == "waiting"

        secured.write_client_file(file)
        launch.send([(b"u", EVENT)])
        launch.wait_for("the record is read", state="running", delivered=1, accepted=1)
        written = [*tmp_path.glob("*.log"), *tmp_path.glob("*.json*")]
        assert len(written) > 3
        assert not [one.name for one in written if PASSWORD in one.read_text(errors="replace")]
    finally:
        launch.kill_all()
        broker.stop()
