"""What the README says, on Docker Compose: and what happens when a container is stopped or killed meanwhile.

The tests run in this order, on one project; each sends events of users and days of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.platform.topics import partition_count
from stateward.project.settings import CHECKOUT
from tests.compose.conftest import STREAM_YAML
from tests.compose.project import Project
from tests.compose.sessions import (
    DEADLINE_S,
    STREAM,
    send,
    send_later_events,
    wait_for_sessions,
    wait_for_validation,
    wait_in_the_middle,
)
from tests.e2e.test_traffic import records_in
from tests.support.kafka.broker import RunningBroker

pytestmark = pytest.mark.compose


def test_every_part_is_ready_and_the_broker_answers_this_machine(project: Project) -> None:
    status = project.status()
    assert status["supervised_by"] == "Docker Compose"
    assert {part["name"]: part["state"] for part in status["parts"]} == dict.fromkeys(
        ("kafka", "api-server", "dag-processor", "scheduler", "triggerer"), "ready"
    )
    assert "run by Docker Compose" in project.stateward("status")
    assert partition_count(f"localhost:{project.kafka_port}", "user_events") == 0


def test_the_commands_of_the_readme(project: Project) -> None:
    project.stateward("replay", "data/web_events.jsonl.gz", "--topic", "user_events", "--tick")
    project.trigger(STREAM, "run")
    wait_for_sessions(project, "")

    wait_for_validation(project)


def test_a_changed_yaml_is_noticed(project: Project) -> None:
    yaml = project.folder / STREAM_YAML
    text = yaml.read_text()
    assert "desired:" not in text

    def edit(desired: str) -> None:
        # As most editors do: the file is another one afterwards.
        new = yaml.with_suffix(".new")
        new.write_text(f"{text}desired: {desired}\n")
        new.replace(yaml)

    edit("suspended")
    project.wait_for(STREAM, 300, desired="suspended", state="stopped")
    edit("running")
    project.wait_for(STREAM, 300, desired="running", state="running")


def test_down_and_up_in_the_middle_of_a_stream(project: Project, tmp_path: Path) -> None:
    before = project.stream(STREAM)
    send_later_events(project, tmp_path, 100, "down")
    wait_in_the_middle(project, before["counters"]["delivered"])
    project.must("down")
    project.up()
    wait_for_sessions(project, "down")
    # Drained: it gave its lease back, where a killed one keeps it until it expires.
    assert dict(project.holdings(STREAM))[before["epoch"]] == "released"


def test_drivers_outlive_the_container_of_the_scheduler(project: Project, tmp_path: Path) -> None:
    before = project.stream(STREAM)
    send_later_events(project, tmp_path, 200, "outlived")
    wait_in_the_middle(project, before["counters"]["delivered"])
    project.must("kill", "--signal", "SIGKILL", "scheduler")
    wait_for_sessions(project, "outlived")
    assert project.stream(STREAM)["epoch"] == before["epoch"]
    # Docker takes a container that a person has killed for one that is to be stopped.
    project.up()
    # The scheduler that comes back supervises the driver that it finds.
    project.trigger(STREAM, "stop")
    project.wait_for(STREAM, DEADLINE_S, state="stopped")
    assert dict(project.holdings(STREAM))[before["epoch"]] == "released"
    project.trigger(STREAM, "run")
    project.wait_for(STREAM, DEADLINE_S, state="running")


def test_a_killed_container_of_the_worker(project: Project, tmp_path: Path) -> None:
    before = project.stream(STREAM)
    send_later_events(project, tmp_path, 300, "killed")
    wait_in_the_middle(project, before["counters"]["delivered"])
    project.must("kill", "--signal", "SIGKILL", "worker")
    project.up()
    wait_for_sessions(project, "killed")
    assert dict(project.holdings(STREAM))[before["epoch"]] == "superseded"


def test_a_backfill_recomputes_what_the_stream_has_written(project: Project) -> None:
    project.trigger("raw_events", "run")
    project.wait_for("raw_events", DEADLINE_S, caught_up=True)
    project.stateward("backfill", STREAM, "--from", "2015-05-17", "--to", "2015-05-22", "--compare")
    project.trigger("raw_events", "stop")
    project.wait_for("raw_events", DEADLINE_S, state="stopped")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker of this machine, which gives containers the name that they have for it."""
    port, controller, published = free_ports(3)
    broker = RunningBroker(
        Broker(
            tmp_path / "kafka",
            CHECKOUT / "jars" / "kafka",
            "127.0.0.1",
            port,
            controller,
            heap_mb=384,
            published_as=f"host.docker.internal:{published}",
            published_port=published,
        )
    )
    broker.start()
    yield broker
    broker.stop()


def test_a_broker_outside(project: Project, outside: RunningBroker) -> None:
    """Of another stream: the checkpoint of the first belongs to the topics of the first broker."""
    project.trigger(STREAM, "stop")
    project.wait_for(STREAM, DEADLINE_S, state="stopped")
    there = f"host.docker.internal:{outside.definition.published_port}"
    project.configure(KAFKA_BOOTSTRAP=there, CREATE_TOPICS_AT=there)
    project.up()
    topic = outside.create_topic("user_activity")
    send(
        outside.bootstrap,
        *(sys.executable, "-m", "proof.traffic"),
        *("--profile", "quiet", "--rate", "20", "--minutes", "1", "--topic", topic, "--no-tick"),
    )
    sent = records_in(outside, topic)
    project.trigger("user_activity", "run")
    seen = project.wait_for("user_activity", DEADLINE_S, caught_up=True)
    assert seen["counters"]["delivered"] == sent > 0
    assert {part["name"]: part["address"] for part in project.status()["parts"]}["kafka"] == there
