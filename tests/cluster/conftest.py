"""Hosts that share nothing but a network, with HDFS and a standalone cluster of two workers on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT
from tests.support.cluster import daemons
from tests.support.cluster.hosts import Host, Network, why_not_here
from tests.support.cluster.installation import ClusterInstallation
from tests.support.kafka.broker import RunningBroker

Installed = Callable[[str], ClusterInstallation]


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
    daemons.fetch_jars()
    network = Network(tmp_path_factory.mktemp("hosts"))
    port, controller = free_ports(2)
    kafka = CHECKOUT / "jars" / "kafka"
    folder = tmp_path_factory.mktemp("kafka")
    broker = RunningBroker(Broker(folder, kafka, network.address, port, controller, heap_mb=384))
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


@pytest.fixture
def installed(cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    """Make installations with data of their own on HDFS; what they have started is ended after the test."""
    made: list[ClusterInstallation] = []

    def make(name: str) -> ClusterInstallation:
        # The data of tests with the same name lie beside each other.
        data = f"{cluster.hdfs}/{tmp_path.name}/{name}"
        made.append(
            ClusterInstallation(
                tmp_path / name, data, cluster.master, cluster.network.address, cluster.broker
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()
