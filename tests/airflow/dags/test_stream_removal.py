"""The removal of a stream by a run of its DAG: Airflow's own and a real broker, the driver a stand-in."""

from __future__ import annotations

import pytest
from airflow.dag_processing.dagbag import DagBag
from confluent_kafka.admin import AdminClient

from stateward.contract.names import TICK_TOPICS
from stateward.contract.storage import read_json
from stateward.control.launchers import processes
from stateward.control.reconcile.observe import read_control
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.airflow.conftest import ROOT, STREAM, Platform, results
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.airflow

TOPIC = f"{TICK_TOPICS}{STREAM}"
NEITHER = {"deploy": "skipped", "supervise": "skipped"}


@pytest.fixture(autouse=True)
def own_broker(platform: Platform, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installation's Kafka, in which missing topics are created, with the stream's tick topic."""
    broker.create_topic(TOPIC, 1)
    monkeypatch.setenv("STATEWARD_KAFKA_BOOTSTRAP", broker.bootstrap)
    monkeypatch.setenv("STATEWARD_CREATE_TOPICS_AT", broker.bootstrap)


def topics(broker: RunningBroker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=20).topics)


@ci_full
def test_a_stream_that_was_stopped_is_removed_and_its_other_dags_with_it(
    platform: Platform, broker: RunningBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    platform.store_dags()
    layout = Layout.of(Settings())
    supervised = platform.trigger("run")
    wait_until(
        lambda: (read_json(layout.status_uri(STREAM)) or {}).get("state") == "running",
        PATIENCE_S,
        platform.failed_output,
    )
    assert platform.run_here("remove", confirm=STREAM)["remove"] == "failed"
    assert f"Stop it first: `stateward stop {STREAM}`" in capfd.readouterr().out
    assert platform.run_here("stop")["deploy"] == "success"
    results(supervised)
    wait_until(lambda: not processes.find_by_env(platform.home, STREAM), PATIENCE_S, "the driver has ended")

    # Without the name it only lists; with another one it refuses.
    assert platform.run_here("remove") == {"remove": "success", **NEITHER}
    assert f"- desired state, {layout.control_uri(STREAM)}" in capfd.readouterr().out
    assert platform.run_here("remove", confirm="another")["remove"] == "failed"
    assert read_control(layout, STREAM) is not None and TOPIC in topics(broker)

    assert platform.run_here("remove", confirm=STREAM) == {"remove": "success", **NEITHER}
    assert read_control(layout, STREAM) is None
    wait_until(lambda: TOPIC not in topics(broker), PATIENCE_S, lambda: f"topics: {topics(broker)}")
    left = [path for path in (platform.home / "data").rglob("*") if path.is_file()]
    assert [path for path in left if STREAM in str(path)] == []
    dags = DagBag(str(ROOT / "dags" / "streams.py")).dags
    assert f"stream_{STREAM}" in dags
    assert [name for name in dags if name.endswith(f"_{STREAM}") and not name.startswith("stream_")] == []


@only_full
def test_the_tick_topic_of_a_cluster_of_others_stays_and_is_named(
    platform: Platform,
    broker: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("STATEWARD_CREATE_TOPICS_AT")
    assert platform.run_here("remove", confirm=STREAM)["remove"] == "success"
    assert f"kept: topic {TOPIC} at {broker.bootstrap}" in capfd.readouterr().out
    assert TOPIC in topics(broker)


@only_full
def test_nothing_is_removed_while_kafka_does_not_answer(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = platform.home / "data" / "checkpoints" / STREAM
    folder.mkdir(parents=True)
    monkeypatch.setenv("STATEWARD_KAFKA_BOOTSTRAP", "localhost:1")
    assert platform.run_here("remove", confirm=STREAM)["remove"] == "failed"
    assert "no Kafka broker answers at localhost:1" in capfd.readouterr().out
    assert folder.is_dir()
