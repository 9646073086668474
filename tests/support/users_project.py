"""A project of a user's own: its Airflow from a fresh virtual environment, and its Kafka with a password."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable

from stateward.contract.storage import read_json
from stateward.control.launchers import processes
from stateward.project.layout import Layout
from tests.support.fresh_machine import Machine, passed
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.secured_broker import SecuredBroker
from tests.support.users_airflow import UsersAirflow
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.wheel import ROOT

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
# A refund of one event alone is not written: the edit of this test.
EDIT = ("return None, (RefundsRow(", "return None, () if state.count < 2 else (RefundsRow(")

# The last one is an hour later, so that the keys before it are done.
EVENTS = (("a", 0), ("b", 1), ("a", 2), ("a", 3), ("c", 70))

Rows = list[tuple[str, int]]
Events = Iterable[tuple[str, int]]
"""The key of each event, and its minute."""


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


def lay_out(machine: Machine) -> None:
    """Lay out a project with one stream."""
    machine.run(machine.stateward, "init", machine.name)
    new = ("new", "stream", "refunds", "--topic", "payments", "--key", "order_id")
    machine.run(machine.stateward, *new, cwd=machine.project)


def check_without_engine(machine: Machine) -> int:
    """Validate a project as laid out, try its stream, and return how many of its tests pass."""
    machine.run(machine.stateward, "validate", cwd=machine.project)
    event = '{"event_id": "%s", "order_id": "a", "event_time": "%s"}'
    lines = [event % ("1", "2026-03-01T12:00:00Z"), event % ("2", "2026-03-01T12:02:00Z"), "{"]
    (machine.project / "events.jsonl").write_text("\n".join(lines))
    said = machine.run(machine.stateward, "try", "refunds", "events.jsonl", cwd=machine.project)
    assert "refunds: 1 row" in said and "malformed_json" in said
    return passed(machine.run(machine.python, "-m", "pytest", "-q", cwd=machine.project))


def new_project(machine: Machine) -> None:
    """Lay out a project with one stream, and edit its logic."""
    lay_out(machine)
    logic = machine.project / "spark_jobs" / "refunds" / "logic.py"
    text = logic.read_text()
    assert text.count(EDIT[0]) == 1
    logic.write_text(text.replace(*EDIT))


SHOP = Case("shop", new_project, "refunds", "payments", "order_id", "refunds", "events", [("a", 3)], 1)


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

    def send(self, events: Events) -> None:
        """Send events; a later one lets the keys before it be done."""
        producer = Producer({**self.broker.client, "bootstrap.servers": self.broker.bootstrap})
        for key, minute in events:
            event = {
                "event_id": f"{key}-{minute}",
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


@contextmanager
def site_of(case: Case, machine: Machine, kafka: Path) -> Iterator[Site]:
    """A project whose topics are there, and an Airflow that knows Spark and Kafka by connections.

    Args:
        case: The project.
        machine: Has Airflow and the wheel.
        kafka: The folder of its broker.
    """
    own = replace(machine, name=case.name)
    case.make(own)
    # What `stateward jars` would fetch; it checks them.
    if own.enter:  # the checkout is not in its system
        shutil.copytree(ROOT / "jars", own.project / "jars")
    else:
        (own.project / "jars").symlink_to(ROOT / "jars")
    own.run(own.stateward, "jars", cwd=own.project)
    secured = SecuredBroker.in_folder(kafka)
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
