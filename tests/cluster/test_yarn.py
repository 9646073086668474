"""A driver in a container of YARN outlives its Airflow, and another one on another host takes over.

Everything is on hosts that share nothing but the network: Airflow with its processes, its database, HDFS,
the ResourceManager, and two NodeManagers for the driver and its executor.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from stateward.contract.stream_control import Application, control_from
from stateward.control.launchers.driver_exit import Presence
from stateward.control.launchers.drivers import driver_of
from stateward.control.reconcile.decide import decide
from stateward.control.reconcile.observe import observe, thresholds_of
from stateward.pages.streams.condition import Condition, condition
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT
from stateward.project.spec import load_spec
from tests.support.cluster import daemons
from tests.support.cluster.airflow_host import AirflowHost
from tests.support.cluster.hosts import OWN, Network, why_not_here
from tests.support.control.live_stream import LiveStream
from tests.support.kafka.broker import RunningBroker
from tests.support.kafka.secured_broker import PASSWORD, PasswordBroker
from tests.support.streams.event_files import Event, as_line, session_counts, web_events, write_lines
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.cluster

STREAM = "user_sessions"
ENDED = ("success", "failed")
JSON = {"Accept": "application/json"}
AIRFLOWS = ("airflow1", "airflow2", "airflow3", "airflow4")
NODES, NODE_MB = ("node1", "node2"), 6144


@dataclass
class Yarn:
    """The hosts, and what runs on them.

    Attributes:
        network: The hosts `storage`, `manager`, `node1` and `node2`, and one for each Airflow.
        hdfs: The address of the file system.
        manager: That of the ResourceManager.
        databases: That of PostgreSQL on the host `storage`.
        broker: Runs on this machine, and is reached by all hosts, with a password.
        keys: Takes a folder of secrets for each database, and the file of Kafka clients.
    """

    network: Network
    hdfs: str
    manager: str
    databases: str
    broker: RunningBroker
    keys: Path

    def start_airflow(self, name: str, database: str, data: str = "stateward") -> LiveStream:
        """Start an Airflow on a host, with a folder of data on HDFS, and return its stream."""
        client = self.keys / "client.properties"
        client.write_text("".join(f"{name} = {value}\n" for name, value in self.broker.client.items()))
        client.chmod(0o600)
        connection = {
            "conn_type": "spark",
            "host": "yarn",
            "extra": {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": self.manager},
        }
        installation = AirflowHost.on(
            self.network.hosts[name],
            database=f"{self.databases}/{database}",
            keys=self.keys / database,
            kafka_client=client,
            connection=connection,
            conf=daemons.client_conf(self.network.hosts["manager"].address, self.hdfs),
            data=f"{self.hdfs}/{data}",
            kafka_bootstrap=self.broker.bootstrap,
            create_topics_at=self.broker.bootstrap,
        )
        installation.deploy()
        # On a busy machine a batch takes longer than a driver may take to drain by default.
        add_to_yaml(installation, "health: {stop_deadline: 4m}")
        installation.start()
        return LiveStream(STREAM, installation)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """YARN, HDFS and PostgreSQL, with hosts for Airflow on which nothing runs yet."""
    reason = why_not_here() or (None if shutil.which("initdb") else "Airflow needs PostgreSQL here (initdb)")
    if reason:
        pytest.skip(reason)
    daemons.fetch_jars()
    network = Network(tmp_path_factory.mktemp("hosts"))
    port, controller = free_ports(2)
    jars, folder = CHECKOUT / "jars" / "kafka", tmp_path_factory.mktemp("kafka")
    definition = PasswordBroker(folder, jars, network.address, port, controller, heap_mb=384)
    broker = RunningBroker(definition, client=definition.client())
    try:
        network.open()
        network.add("storage", "manager", *NODES, *AIRFLOWS)
        hosts = network.hosts
        hdfs = daemons.start_hdfs(hosts["storage"])
        databases = daemons.start_postgres(
            hosts["storage"], f"{network.address}/24", ("kept", "empty", "other")
        )
        manager = daemons.start_resource_manager(hosts["manager"], hdfs)
        for name in NODES:
            daemons.start_node_manager(hosts[name], hosts["manager"].address, hdfs, memory_mb=NODE_MB)
        broker.start()
        yield Yarn(network, hdfs, manager, databases, broker, tmp_path_factory.mktemp("keys"))
    finally:
        broker.stop()
        network.close()


def add_to_yaml(installation: AirflowHost, line: str) -> None:
    yaml = installation.project / "include" / "streams" / f"{STREAM}.yaml"
    yaml.write_text(f"{yaml.read_text()}\n{line}\n")


def is_running(stream: LiveStream) -> bool:
    return stream.status().get("state") == "running"


def wait_running(stream: LiveStream) -> dict[str, Any]:
    """Wait until its driver runs, and return the status."""
    wait_until(lambda: is_running(stream), PATIENCE_S, lambda: describe(stream), poll_s=1)
    return stream.status()


def on_host(stream: LiveStream) -> AirflowHost:
    assert isinstance(stream.installation, AirflowHost)
    return stream.installation


def describe(stream: LiveStream) -> str:
    return f"{stream.status()}; {stream.control()}; {on_host(stream).host.logs()}"


def application(stream: LiveStream) -> Application:
    launch = control_from(stream.control()).launch
    assert launch is not None and launch.application is not None
    return launch.application


def presence(stream: LiveStream, **known: str) -> Presence:
    """Where the driver is, as any host can tell by what is known of its application."""
    launch = control_from(stream.control()).launch
    assert launch is not None
    return driver_of(
        Path("/nowhere"), STREAM, replace(launch, application=replace(application(stream), **known))
    ).look()


def send(stream: LiveStream, folder: Path, events: list[Event]) -> None:
    file = write_lines(folder / "events.jsonl", [as_line(event) for event in events])
    assert stream.replay(file).wait(PATIENCE_S) == 0


def send_the_last(stream: LiveStream, events: list[Event]) -> None:
    """Send events and a tick, from the stream's host: the tick takes the project."""
    file = write_lines(on_host(stream).host.folder / "events.jsonl", [as_line(event) for event in events])
    on_host(stream).stateward("replay", str(OWN / file.name), "--topic", "user_events", "--tick")


def wait_counted(stream: LiveStream, records: int) -> None:
    wait_until(lambda: stream.counted() >= records, PATIENCE_S, lambda: describe(stream), poll_s=1)


def finish(stream: LiveStream, run: str, task: str) -> str | None:
    """Wait until a task of a run has ended, and return its state."""
    with stream.airflow() as api:
        wait_until(
            lambda: api.task_states(stream.dag, run).get(task) in ENDED,
            2 * PATIENCE_S,
            lambda: f"{task} ends; found {api.task_states(stream.dag, run)}; {describe(stream)}",
            poll_s=1,
        )
        return api.task_states(stream.dag, run)[task]


def upgrade(stream: LiveStream) -> str:
    logic = on_host(stream).project / "spark_jobs" / STREAM / "logic.py"
    logic.write_text(f"{logic.read_text()}\n# The next release.\n")
    with stream.airflow() as api:
        return api.trigger(stream.dag, {"action": "upgrade", "watch_s": 20})


def test_a_driver_outlives_its_airflow_and_two_others_find_it(yarn: Yarn, tmp_path: Path) -> None:
    events = web_events()
    parts = [events[at : at + 2000] for at in range(0, len(events), 2000)]
    first = yarn.start_airflow("airflow1", "kept")
    first.trigger("run")
    started = wait_running(first)
    assert started["host"].split("/")[0] in NODES
    send(first, tmp_path, parts[0])
    wait_counted(first, 2000)
    require_secret_is_kept(yarn, first)
    assert presence(first) is Presence.ALIVE
    assert presence(first, id="") is Presence.ALIVE, "it is found by its tag"
    assert presence(first, cluster="http://127.0.0.1:1") is Presence.ELSEWHERE

    yarn.network.hosts["airflow1"].kill()
    send(first, tmp_path, parts[1])
    wait_counted(first, 4000)
    assert (first.status()["run_id"], first.status()["epoch"]) == (started["run_id"], started["epoch"])

    second = yarn.start_airflow("airflow2", "kept")
    found = application(second)
    assert finish(second, second.trigger("run"), "deploy") == "success"
    assert application(second) == found and second.status()["run_id"] == started["run_id"]
    assert "Running Spark version" in on_host(second).stateward("logs", STREAM, "--lines", "1000")
    assert finish(second, second.trigger("stop"), "deploy") == "success"
    assert second.status()["state"] == "stopped" and presence(second) is Presence.GONE
    send(second, tmp_path, parts[2])
    assert finish(second, second.trigger("run"), "deploy") == "success"
    assert application(second) != found
    wait_counted(second, 6000)

    yarn.network.hosts["airflow2"].kill()
    send(second, tmp_path, parts[3])
    wait_counted(second, 8000)
    before = second.status()

    third = yarn.start_airflow("airflow3", "empty")
    assert finish(third, third.trigger("run"), "deploy") == "success"
    assert third.status()["run_id"] == before["run_id"]
    release = third.control()["release"]
    run = upgrade(third)
    send_the_last(third, parts[4])
    assert finish(third, run, "upgrade") == "success"
    assert third.control()["release"] != release
    wait_exact(third, events)
    assert finish(third, third.trigger("stop"), "deploy") == "success"
    yarn.network.hosts["airflow3"].kill()


def test_a_driver_waits_for_a_container_until_others_are_gone(yarn: Yarn) -> None:
    stream = yarn.start_airflow("airflow4", "other", "other")
    others = [occupy(yarn.manager) for _ in NODES]
    wait_until(lambda: free_mb(yarn.manager) == 0, PATIENCE_S, "both nodes are full")
    stream.trigger("run")
    wait_until(lambda: shown(stream).state == "waiting", PATIENCE_S, lambda: describe(stream), poll_s=1)
    says = shown(stream).says
    assert f"the cluster has 0 of {len(NODES) * NODE_MB} MiB" in says and "2304 MiB" in says, says
    for other in others:
        ask(yarn.manager, "PUT", f"apps/{other}/state", json={"state": "KILLED"})
    wait_running(stream)
    assert stream.control()["failures"] == 0 and application(stream).id not in others
    assert finish(stream, stream.trigger("stop"), "deploy") == "success"


def occupy(manager: str) -> str:
    """Start an application that takes all the memory of a node, and return its id."""
    known = str(ask(manager, "POST", "apps/new-application").json()["application-id"])
    submitted = {
        "application-id": known,
        "application-name": "other",
        "application-type": "YARN",
        "am-container-spec": {"commands": {"command": "sleep 600"}},
        "resource": {"memory": NODE_MB, "vCores": 1},
        "max-app-attempts": 1,
    }
    ask(manager, "POST", "apps", json=submitted)
    return known


def ask(manager: str, method: str, path: str, **sent: Any) -> httpx.Response:
    """Ask the ResourceManager; a proxy of the environment does not lead to it."""
    address = f"{manager}/ws/v1/cluster/{path}"
    return httpx.request(method, address, headers=JSON, trust_env=False, **sent).raise_for_status()


def free_mb(manager: str) -> int:
    return int(ask(manager, "GET", "metrics").json()["clusterMetrics"]["availableMB"])


def shown(stream: LiveStream) -> Condition:
    """Return the stream's condition, as its page shows it."""
    seen = observe(stream.layout, STREAM)
    return condition(seen, decide(thresholds_of(load_spec(STREAM)), seen, datetime.now(UTC)))


def require_secret_is_kept(yarn: Yarn, stream: LiveStream) -> None:
    """Require that the password is in files of its user, and in nothing that others may read."""
    modes: list[str] = []
    for name in NODES:
        node = yarn.network.hosts[name]
        copies = node.run("find", OWN / "local", "-name", "client.properties", "-type", "f", "-printf", "%m ")
        # One where it has a container; driver and executor may be on one node.
        held = copies.split()
        assert held in ([], ["500"])
        modes += held
        found = node.run("sh", "-c", f"grep -rlF '{PASSWORD}' {OWN}/local {OWN}/containers | sort")
        assert [Path(line).name for line in found.split()] == ["client.properties"] * len(held)
        assert PASSWORD not in node.run("ps", "axeww", "-o", "args")
    assert modes
    assert PASSWORD not in f"{stream.control()}{stream.status()}"
    submitted = list(on_host(stream).host.folder.glob(f"home/drivers/{STREAM}/*.log"))
    assert submitted and not any(PASSWORD in log.read_text() for log in submitted)


def wait_exact(stream: LiveStream, events: list[Event]) -> None:
    """Wait until the table has exactly the sessions of the truth."""
    expected = sorted(session_counts(events).items())

    def rows() -> list[tuple[str, int]]:
        found = stream.rows("sessions", ["session_id", "event_count"])
        return sorted((row["session_id"], row["event_count"]) for row in found)

    wait_until(
        lambda: rows() == expected,
        PATIENCE_S,
        lambda: f"{len(expected)} sessions; found {len(rows())}; {describe(stream)}",
        poll_s=1,
    )
    delivered, accounted = stream.balance()
    assert delivered == accounted
