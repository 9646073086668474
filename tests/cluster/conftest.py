"""Hosts that share nothing but a network, with HDFS and a standalone cluster of two workers on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT
from tests.support.cluster import daemons
from tests.support.cluster.hosts import Host, Network, why_not_here
from tests.support.cluster.installation import ClusterInstallation
from tests.support.cluster.kubernetes import Kubernetes
from tests.support.cluster.kubernetes import why_not_here as why_no_kubernetes
from tests.support.cluster.s3 import (
    BUCKET,
    UnreliableS3,
    connection,
    environment,
    jars_with_client,
    start_s3,
    start_unreliable_s3,
)
from tests.support.kafka.broker import RunningBroker


@dataclass
class Cluster:
    """The hosts, and what runs on them.

    Attributes:
        network: The hosts `storage`, `master`, `worker1` and `worker2`; this machine is one more.
        hdfs: The address of the file system.
        master: The address of the standalone master.
        broker: Runs on this machine, and is reached by all hosts.
    """

    network: Network
    hdfs: str
    master: str
    broker: RunningBroker

    @property
    def workers(self) -> list[Host]:
        return [host for name, host in self.network.hosts.items() if name.startswith("worker")]

    def logs(self) -> str:
        """Return the ends of what the daemons have logged."""
        return "\n".join(host.logs() for host in self.network.hosts.values())


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that is up. A test that breaks it has to leave it repaired."""
    if reason := why_not_here():
        pytest.skip(reason)
    network = Network(tmp_path_factory.mktemp("hosts"))
    broker = _broker(network, tmp_path_factory)
    try:
        network.open()
        network.add("storage", "master", "worker1", "worker2")
        hosts = network.hosts
        hdfs = daemons.start_hdfs(hosts["storage"])
        master = daemons.start_master(hosts["master"])
        for name in ("worker1", "worker2"):
            daemons.start_worker(hosts[name], master)
        broker.start()
        yield Cluster(network, hdfs, master, broker)
    finally:
        broker.stop()
        network.close()


def _broker(network: Network, tmp_path_factory: pytest.TempPathFactory) -> RunningBroker:
    port, controller = free_ports(2)
    folder, jars = tmp_path_factory.mktemp("kafka"), CHECKOUT / "jars" / "kafka"
    return RunningBroker(Broker(folder, jars, network.address, port, controller, heap_mb=384))


@pytest.fixture(scope="session")
def s3(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The address of an S3 server, and the folder of JARs with which Spark reaches it."""
    address = start_s3(cluster.network.hosts["storage"])
    return address, jars_with_client(tmp_path_factory.mktemp("s3") / "jars")


@pytest.fixture
def unreliable_s3(cluster: Cluster, s3: tuple[str, Path]) -> Iterator[UnreliableS3]:
    """The same server behind a proxy that fails when the test says so."""
    hosts = cluster.network.hosts
    cluster.network.add("proxy")
    try:
        yield start_unreliable_s3(hosts["proxy"], s3[0])
    finally:
        cluster.network.drop("proxy")


class Installed:
    """Makes installations with data of their own."""

    def __init__(self, request: pytest.FixtureRequest, cluster: Cluster, folder: Path) -> None:
        self._request = request
        self._cluster = cluster
        self._folder = folder
        self.made: list[ClusterInstallation] = []

    def __call__(self, name: str, storage: str = "hdfs", host: Host | None = None) -> ClusterInstallation:
        """Make one; what it has started is ended after the test.

        Args:
            name: Those of a test with the same name have the same data, and read the same topics.
            storage: Where the data is: `hdfs`, `s3`, `unreliable_s3`, which is S3 through a proxy for all but
                the test, or `disk`, which has its drivers on this machine alone.
            host: Where its processes are; this machine without it.
        """
        cluster, master, more, jars = self._cluster, self._cluster.master, {}, CHECKOUT / "jars"
        root = cluster.hdfs
        if storage.endswith("s3"):
            address, jars = self._request.getfixturevalue("s3")
            # For the tests. What they start has the connection only.
            for variable, value in environment(address).items():
                self._request.getfixturevalue("monkeypatch").setenv(variable, value)
            if storage == "unreliable_s3":
                address = self._request.getfixturevalue(storage).address
            root, more = f"s3://{BUCKET}", connection(address)
        elif storage == "disk":
            root, master = f"file://{self._folder}/disk", "local[2]"
        folder, address = self._folder / f"{name}-{storage}", cluster.network.address
        if host is not None:
            folder, address = host.folder / name, host.address
        data = f"{root}/{self._folder.name}/{name}"
        made = ClusterInstallation(folder, data, master, address, cluster.broker, more, jars, host)
        self.made.append(made)
        return made


@pytest.fixture
def installed(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    """Make installations; what they have started is ended after the test."""
    made = Installed(request, cluster, tmp_path)
    yield made
    for one in made.made:
        one.close()


@dataclass(frozen=True)
class Hosts:
    """What the pods reach.

    Attributes:
        network: The host `storage`; this machine is one more.
        hdfs: The address of the file system.
        broker: Runs on this machine.
    """

    network: Network
    hdfs: str
    broker: RunningBroker


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    if reason := why_no_kubernetes() or why_not_here():
        pytest.skip(reason)
    one = Kubernetes(tmp_path_factory.mktemp("kubernetes"))
    one.install()
    yield one
    one.clear()


@pytest.fixture(scope="session")
def hosts(kubernetes: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """HDFS on a host of its own, and a broker, both of which pods reach."""
    daemons.fetch_jars()
    network = Network(tmp_path_factory.mktemp("hosts"))
    broker = _broker(network, tmp_path_factory)
    try:
        network.open()
        network.add("storage")
        hdfs = daemons.start_hdfs(network.hosts["storage"])
        broker.start()
        yield Hosts(network, hdfs, broker)
    finally:
        broker.stop()
        network.close()
