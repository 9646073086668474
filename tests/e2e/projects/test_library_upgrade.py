"""`pip install -U` of the library under a running stream: the stream goes on until it is upgraded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stateward.contract.stream_control import Control
from stateward.control.reconcile.observe import read_control, read_supervisor
from tests.support.fresh_machine import install_wheel, with_airflow_and_wheel
from tests.support.full import only_full
from tests.support.users_project import EVENTS, SHOP, Site, site_of
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.wheel import build_version

pytestmark = [pytest.mark.e2e, only_full, pytest.mark.timeout(2400)]

STREAM, DAG = SHOP.stream, f"stream_{SHOP.stream}"
EXTRAS = "airflow,spark,quality,dev"
GOOD = {"runtime/session.py": "\n# A newer release.\n"}
# Its driver starts, and fails before it runs a batch.
BUG = """

def _fails(self: Driver) -> None:
    raise RuntimeError("this release of the library has a bug")


Driver._serve = _fails
"""
BAD = {"runtime/driver/driver.py": BUG}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    machine = with_airflow_and_wheel(tmp_path_factory.mktemp("machine"), EXTRAS)
    with site_of(SHOP, machine, tmp_path_factory.mktemp("kafka")) as site:
        yield site


def control_of(site: Site) -> Control:
    control = read_control(site.layout, STREAM)
    assert control is not None
    return control


def driver_of(site: Site) -> tuple[int | None, str | None]:
    """Return the process of the newest launch, and its release."""
    control = control_of(site)
    return control.launch.pid if control.launch else None, control.release


def install(site: Site, wheel: Path) -> None:
    """Upgrade the library as a person does, while Airflow and the stream run."""
    install_wheel(site.airflow.machine, wheel, EXTRAS, "-U", "--constraint", "lock.txt")


def wait_for_looks(site: Site, count: int) -> None:
    """Wait until the supervisor has looked at the stream some times from now on."""
    for _ in range(count):
        since = datetime.now(UTC)

        def looked(since: datetime = since) -> bool:
            found = read_supervisor(site.layout, STREAM)
            return found is not None and found.at > since

        wait_until(looked, PATIENCE_S, lambda: f"the supervisor looks; {site.airflow.tail()}", poll_s=1)


def restart_airflow(site: Site) -> None:
    """Airflow's processes take the new library when they start."""
    site.airflow.stop()
    site.airflow.start()
    wait_for_looks(site, 2)


def test_the_library_is_upgraded_under_a_running_stream_and_rolled_back(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    airflow = site.airflow
    airflow.unpause(DAG)
    airflow.command("stateward", "start", STREAM)
    site.send(EVENTS)
    site.wait_for_rows([("a", 3)])
    first = driver_of(site)

    install(site, build_version(tmp_path_factory.mktemp("good"), "0.9.1", GOOD))
    wait_for_looks(site, 2)
    restart_airflow(site)
    assert driver_of(site) == first
    with airflow.api() as api:
        assert api.import_errors() == []
    assert "library" in airflow.command("stateward", "plan", STREAM)
    site.send([("c", 71), ("d", 200)])
    site.wait_for_rows([("a", 3), ("c", 2)])
    assert driver_of(site) == first

    airflow.command("stateward", "upgrade", STREAM, "--watch-s", "10")
    second = driver_of(site)
    assert second[0] != first[0]
    assert "-0.9.1." in str(second[1]) and "-0.9.1." not in str(first[1])
    site.send([("d", 201), ("e", 400)])
    site.wait_for_rows([("a", 3), ("c", 2), ("d", 2)])

    install(site, build_version(tmp_path_factory.mktemp("bad"), "0.9.2", BAD))
    restart_airflow(site)
    assert driver_of(site) == second
    airflow.command("stateward", "upgrade", STREAM, "--watch-s", "10", code=1)
    # The release of before keeps its library, so the newest package does not matter to it.
    assert driver_of(site)[1] == second[1]
    site.send([("e", 401), ("f", 600)])
    site.wait_for_rows([("a", 3), ("c", 2), ("d", 2), ("e", 2)])
    assert "-0.9.1." in str(control_of(site).release)
    airflow.command("stateward", "stop", STREAM)
