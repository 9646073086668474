"""From nothing, without this checkout: a stream of one's own under an Airflow of one's own, from the wheel.

Kafka is an Airflow connection with a password; no `STATEWARD_KAFKA_*` is set. The project of this repository
is run in the same way, by a user who has its folders and the wheel.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable

from stateward.contract.storage import read_json
from stateward.control.launchers import processes
from stateward.project.layout import Layout
from tests.support.fresh_machine import Machine, with_airflow_and_wheel
from tests.support.full import only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.secured_broker import PASSWORD, SecuredBroker
from tests.support.users_airflow import UsersAirflow
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.wheel import ROOT

pytestmark = [pytest.mark.e2e, only_full, pytest.mark.timeout(2400)]

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
# The key, and the minute. The last one is an hour later, so that the keys before it are done.
EVENTS = (("a", 0), ("b", 1), ("a", 2), ("a", 3), ("c", 70))
# A refund of one event alone is not written: the edit of this test.
EDIT = ("return None, (RefundsRow(", "return None, () if state.count < 2 else (RefundsRow(")

Rows = list[tuple[str, int]]


@dataclass(frozen=True)
class Case:
    """A project with a stream that counts the events of a key until it is quiet.

    Attributes:
        name: The folder of the project.
        make: Makes the project on a machine.
        key, table, count: A field of the events, and the table and its column of the rows.
        rows: The keys and counts that follow from `EVENTS`.
        streams: How many streams the project has.
    """

    name: str
    make: Callable[[Machine], None]
    stream: str
    topic: str
    key: str
    table: str
    count: str
    rows: Rows
    streams: int

    @property
    def topics(self) -> set[str]:
        return {self.topic, f"stateward-ticks-{self.stream}"}


def new_project(machine: Machine) -> None:
    """Lay out a project with one stream, and edit its logic."""
    stateward = machine.python.parent / "stateward"
    machine.run(stateward, "init", machine.name)
    new = ("new", "stream", "refunds", "--topic", "payments", "--key", "order_id")
    machine.run(stateward, *new, cwd=machine.project)
    logic = machine.project / "spark_jobs" / "refunds" / "logic.py"
    text = logic.read_text()
    assert text.count(EDIT[0]) == 1
    logic.write_text(text.replace(*EDIT))


def this_project(machine: Machine) -> None:
    """Copy what this repository's project is, without the library."""
    for folder in ("dags", "spark_jobs", "include"):
        shutil.copytree(ROOT / folder, machine.project / folder)


CASES = (
    Case("shop", new_project, "refunds", "payments", "order_id", "refunds", "events", [("a", 3)], 1),
    Case(
        "example",
        this_project,
        *("user_sessions", "user_events", "user_id", "sessions", "event_count"),
        rows=[("a", 3), ("b", 1)],
        streams=10,
    ),
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return with_airflow_and_wheel(tmp_path_factory.mktemp("machine"), "airflow,spark,quality,dev")


@dataclass(frozen=True)
class Site:
    """A project in use: its Airflow, and its Kafka with a password."""

    case: Case
    airflow: UsersAirflow
    broker: RunningBroker
    admin: AdminClient

    @property
    def layout(self) -> Layout:
        home = self.airflow.machine.project / "var"
        return Layout(home, f"file://{home}/data")

    def topics(self) -> set[str]:
        """Return the topics, without those of the broker itself."""
        found = self.admin.list_topics(timeout=20).topics
        return {name for name in found if not name.startswith("__")}

    def send(self) -> None:
        """Send the events."""
        producer = Producer({**self.broker.client, "bootstrap.servers": self.broker.bootstrap})
        for number, (key, minute) in enumerate(EVENTS):
            event = {
                "event_id": f"{key}-{number}",
                self.case.key: key,
                "event_type": "view",
                "event_time": (BEGIN + timedelta(minutes=minute)).isoformat(),
            }
            producer.produce(self.case.topic, json.dumps(event).encode(), key.encode())
        assert producer.flush(PATIENCE_S) == 0

    def rows(self) -> Rows:
        """Return the keys and the counts in the table."""
        uri = self.layout.table_uri(self.case.table)
        if not DeltaTable.is_deltatable(uri):
            return []
        names = [self.case.key, self.case.count]
        found = DeltaTable(uri).to_pyarrow_table(columns=names).to_pylist()
        return sorted((row[names[0]], row[names[1]]) for row in found)

    def wait_for_rows(self, expected: Rows) -> None:
        def found() -> str:
            status = read_json(self.layout.status_uri(self.case.stream))
            return f"expected {expected}, found {self.rows()}; status {status}"

        wait_until(lambda: self.rows() == expected, PATIENCE_S, found, poll_s=1)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def site(
    request: pytest.FixtureRequest, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A project whose topics are there, and an Airflow that knows Spark and Kafka by connections."""
    case: Case = request.param
    own = replace(machine, name=case.name)
    case.make(own)
    # What `stateward jars` would fetch; it checks them.
    (own.project / "jars").symlink_to(ROOT / "jars")
    own.run(own.python.parent / "stateward", "jars", cwd=own.project)
    secured = SecuredBroker.in_folder(tmp_path_factory.mktemp("kafka"))
    broker, airflow = RunningBroker(secured, client=secured.client()), UsersAirflow(own)
    try:
        broker.start()
        login = {"bootstrap.servers": broker.bootstrap, **broker.client}
        admin = AdminClient(dict(login))
        create_topics(admin, case)
        airflow.command("airflow", "db", "migrate")
        airflow.connect("spark_default", conn_type="spark", host="local[2]")
        airflow.connect("kafka_default", conn_type="kafka", extra=login)
        airflow.start()
        yield Site(case, airflow, broker, admin)
    finally:
        airflow.stop()
        left = processes.kill(processes.find_by_env(own.project / "var", case.stream), timeout_s=20)
        broker.stop()
    assert left == []


def create_topics(admin: AdminClient, case: Case) -> None:
    """Create the topics, as the owner of the cluster does."""
    stamped = {"message.timestamp.type": "LogAppendTime"}
    new = [NewTopic(name, 1, config={} if name == case.topic else stamped) for name in case.topics]
    for created in admin.create_topics(new).values():
        created.result(20)


def test_a_stream_is_supervised_and_its_table_validated_then_removed(site: Site) -> None:
    case, airflow, layout = site.case, site.airflow, site.layout
    assert not [name for name in airflow.environment if name.startswith("STATEWARD_KAFKA")]
    assert f"{case.streams} streams are valid" in airflow.command("stateward", "validate")
    with airflow.api() as api:
        airflow.unpause(f"stream_{case.stream}")
        assert api.import_errors() == []
    airflow.command("stateward", "start", case.stream)
    site.send()
    site.wait_for_rows(case.rows)
    assert f"{case.stream}: compatible; nothing changes." in airflow.command("stateward", "plan", case.stream)
    airflow.command("stateward", "stop", case.stream)

    validated = validate_table(site)
    assert validated["passed"] is True and validated["table"] == case.table
    assert passwords_in(layout) == []

    airflow.command("stateward", "remove", case.stream, "--yes")
    assert read_json(layout.control_uri(case.stream)) is None
    assert site.rows() == case.rows
    # From nothing: the topic is read from its beginning again, beside the rows that were kept.
    airflow.command("stateward", "start", case.stream)
    site.wait_for_rows(sorted(2 * case.rows))
    airflow.command("stateward", "stop", case.stream)
    assert site.topics() == case.topics


def validate_table(site: Site) -> dict[str, Any]:
    """Let the quality DAG validate the table, and return the record of the run."""
    airflow, dag_id = site.airflow, f"quality_{site.case.stream}"
    airflow.unpause(dag_id)
    with airflow.api() as api:
        run = api.trigger(dag_id, {})
        wait_until(
            lambda: api.run_state(dag_id, run) in ("success", "failed"),
            PATIENCE_S,
            lambda: f"{dag_id} ends; found {api.task_states(dag_id, run)}",
            poll_s=1,
        )
        logs = sorted(airflow.machine.airflow_home.glob(f"logs/dag_id={dag_id}/**/*.log"))
        text = logs[-1].read_text()[-6000:] if logs else "no log"
        assert api.run_state(dag_id, run) == "success", text
    table = DeltaTable(site.layout.table_uri("quality_validations"))
    found: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return found[-1]


def passwords_in(layout: Layout) -> list[Path]:
    """Return the files of the installation, other than the one for it, that have the password."""
    texts = (".json", ".log", ".yaml")
    files = [path for path in layout.home.rglob("*") if path.is_file() and path.suffix in texts]
    return [path for path in files if PASSWORD in path.read_text(errors="replace")]
