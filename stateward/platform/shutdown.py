"""`stateward down`: stop every process of one installation, and no other."""

from __future__ import annotations

import time
from collections.abc import Callable

from stateward.platform.lock import exclusive
from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.registry import AIRFLOW_PARTS, KAFKA
from stateward.platform.parts.supervisord import Supervisor
from stateward.platform.processes import drain, drivers, end, find_owned, parts_only
from stateward.project.layout import Layout
from stateward.project.settings import Settings

Report = Callable[[str, str], None]


def down(settings: Settings, report: Report = lambda part, what: None) -> None:
    """Stop Airflow, drain the stream drivers, then stop Kafka and the supervisor. Idempotent.

    In this order, because Airflow would restart a driver that drains, and a driver needs Kafka to finish its
    batch. What should run is left as it is: `up` goes on where this stops.

    Raises:
        LockTimeoutError: another `up` or `down` is still at work.
    """
    if not settings.home.exists():
        return
    waiting = lambda: report("platform", "waiting for another `stateward up` or `down`")  # noqa: E731
    with exclusive(settings.home, settings.start_timeout_s + 60, waiting):
        supervisor = Supervisor(Layout.of(settings))
        running = supervisor.is_running()
        if running:
            report("airflow", "stopping")
            supervisor.stop_parts(AIRFLOW_PARTS)
        end_airflow_leftovers(settings)
        drain_drivers(settings, report)
        if running:
            report("kafka", "stopping")
            supervisor.stop_parts((KAFKA,))
            supervisor.shut_down()
            _wait_for_end(supervisor, timeout_s=10)
        _sweep(settings, report)
        supervisor.clear_files()
        # Kafka's own, held only while it lives.
        (Broker.of(settings).log_dir / ".lock").unlink(missing_ok=True)


def end_airflow_leftovers(settings: Settings) -> None:
    """End Airflow's processes that no supervisor knows any more, before the drivers they would restart."""
    names = {part.name for part in AIRFLOW_PARTS}
    leftovers = [one.process for one in find_owned(settings.home) if one.part in names and one.stream is None]
    end(leftovers, grace_s=10)


def drain_drivers(settings: Settings, report: Report) -> None:
    """Drain the drivers of this machine, and kill what has not left after `drain_timeout_s` seconds."""
    found = drivers(find_owned(settings.home))
    if not found:
        return
    names = ", ".join(sorted(found))
    report("streams", f"draining {names}")
    processes = [process for family in found.values() for process in family]
    if not drain(processes, settings.drain_timeout_s):
        report("streams", f"{names}: killed after {settings.drain_timeout_s:g} s; the next start repairs")


def _wait_for_end(supervisor: Supervisor, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while supervisor.pid_file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)


def _sweep(settings: Settings, report: Report) -> None:
    """End whatever else carries this installation's mark: without a supervisor, that is the broker too."""
    remaining = find_owned(settings.home)
    for family in drivers(remaining).values():
        drain(family, settings.drain_timeout_s)
    others = parts_only(remaining)
    if others:
        report("platform", f"ending {len(others)} more processes")
        end(others, grace_s=20)
