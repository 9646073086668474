"""Hosts of a test share nothing but a network, and leave nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stateward.project.settings import CHECKOUT
from tests.cluster.conftest import Cluster
from tests.support.cluster.hosts import PYTHON, why_not_here
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.cluster

_OPENS = """
import sys
from pathlib import Path
from tests.support.cluster.hosts import Network
network = Network(Path(sys.argv[1]))
network.open()
network.add("one", "two")
host = network.hosts["one"]
host.start("sleep.log", {}, "sleep", "infinity")
print(network.link, host.pid, host.run("pidof", "sleep").split()[0] != "", flush=True)
sys.stdin.read()
network.close()
"""


def test_hosts_share_nothing_but_the_network(cluster: Cluster) -> None:
    for host in cluster.workers:
        assert [host.run("ls", folder) for folder in (CHECKOUT, Path.home())] == ["", ""]
        program = "import importlib.util as u; print(u.find_spec('stateward'), u.find_spec('spark_jobs'))"
        assert host.run(PYTHON / "bin" / "python", "-c", program) == "None None\n"
        assert host.run("hostname").strip() == host.name
        assert "pytest" not in host.run("ps", "ax")


@pytest.mark.parametrize("by", [None, signal.SIGINT, signal.SIGKILL], ids=["ends", "SIGINT", "SIGKILL"])
def test_nothing_is_left_of_hosts(tmp_path: Path, by: signal.Signals | None) -> None:
    if reason := why_not_here():
        pytest.skip(reason)
    child = subprocess.Popen(
        [sys.executable, "-c", _OPENS, str(tmp_path)],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    link, pid, _ = child.stdout.readline().split()
    left = [Path("/sys/class/net") / link, Path("/proc") / pid]
    assert all(one.exists() for one in left)
    if by is None:
        child.communicate()
        assert child.returncode == 0
    else:
        child.send_signal(by)
        child.wait(PATIENCE_S)
    wait_until(
        lambda: not any(one.exists() for one in left), PATIENCE_S, lambda: f"nothing is left of {left}"
    )
