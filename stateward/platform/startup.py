"""`stateward up`: bring the embedded platform to the state in which every part answers."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from stateward.contract.names import ENV_PREFIX
from stateward.contract.process_output import READY, Report
from stateward.platform.health import airflow_health, answers
from stateward.platform.jars.fetch import require_jars
from stateward.platform.jars.java import find_java
from stateward.platform.lock import exclusive
from stateward.platform.parts import airflow
from stateward.platform.parts.ports import is_free, require_free
from stateward.platform.parts.registry import AIRFLOW_PARTS, KAFKA, Part, parts_of
from stateward.platform.parts.supervisord import PartState, Supervisor
from stateward.platform.processes import end, find_owned, parts_only
from stateward.platform.running import read_environment
from stateward.platform.secrets import Secrets
from stateward.project.layout import Layout
from stateward.project.settings import Settings

_POLL_S = 0.25
# What may differ between two calls of `up` without the running parts being wrong.
_HARMLESS_SETTINGS = {
    "STATEWARD_START_TIMEOUT_S",
    "STATEWARD_DRAIN_TIMEOUT_S",
    "STATEWARD_STARTS_AT_ONCE",
}


class StartError(RuntimeError):
    """A part did not start."""


def up(settings: Settings, report: Report = lambda part, what: None) -> None:
    """Start what is not running, repair what is broken, and return when every part answers. Idempotent.

    Raises:
        JavaNotFoundError, JarsMissingError, PortInUseError: this machine is not ready; nothing was started.
        StartError: a part did not start or does not answer; the message ends with its log.
        LockTimeoutError: another `up` or `down` is still at work.
    """
    find_java()
    require_jars(settings)
    waiting = lambda: report("platform", "waiting for another `stateward up` or `down`")  # noqa: E731
    with exclusive(settings.home, settings.start_timeout_s + 60, waiting):
        supervisor = Supervisor(Layout.of(settings))
        secrets = Secrets.load_or_create(Layout.of(settings).airflow_home)
        environ = airflow.environment(settings, secrets)
        if supervisor.is_running():
            _refuse_other_settings(supervisor, settings)
            _require_ports(settings, supervisor)
        else:
            _end_orphans(settings, report)
            _require_ports(settings, supervisor)
            supervisor.start(settings, environ)
        _start_parts(settings, supervisor, environ, report)


def _end_orphans(settings: Settings, report: Report) -> None:
    """End what a killed supervisor has left; stream drivers go on, and are found again by their DAG."""
    orphans = parts_only(find_owned(settings.home))
    if orphans:
        report("platform", f"ending {len(orphans)} processes left by a killed supervisor")
        end(orphans, grace_s=15)
    Supervisor(Layout.of(settings)).clear_files()


def _refuse_other_settings(supervisor: Supervisor, settings: Settings) -> None:
    running, wanted = supervisor.started_with(), settings.environment()
    if running:
        # A setting that the running release does not know yet has its default there.
        running = read_environment(running).environment()
    changed = sorted(
        name for name in wanted if running.get(name) != wanted[name] and name not in _HARMLESS_SETTINGS
    )
    if running and changed:
        details = ", ".join(f"{name}: running {running.get(name)}, wanted {wanted[name]}" for name in changed)
        raise StartError(
            f"the platform at {settings.home} runs with other settings ({details}); "
            "run `stateward down` first, with STATEWARD_HOME as it is now"
        )


def _require_ports(settings: Settings, supervisor: Supervisor) -> None:
    states = supervisor.states()
    wanted = {
        f"{ENV_PREFIX}{field.upper()}": int(getattr(settings, field))
        for part in parts_of(settings)
        for field in part.port_settings
        # A part that is there holds its own ports.
        if part.name not in states or states[part.name].state in ("STOPPED", "EXITED", "FATAL")
    }
    # What a part of ours, just ended or killed, has left is cleared away by its launcher.
    mine = {one.process.pid for one in find_owned(settings.home)}
    require_free(wanted, settings.bind_host, ignore_pids=mine)


def _start_parts(settings: Settings, supervisor: Supervisor, environ: dict[str, str], report: Report) -> None:
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="migrate") as pool:
        if settings.embedded:
            supervisor.start_part(KAFKA)
            report(KAFKA.name, "starting")
        report("database", "migrating")
        migration = pool.submit(airflow.migrate, settings, environ)
        _Waiter(settings, supervisor, report, migration).wait()


class _Waiter:
    """Starts Airflow's parts when their database is there, and waits until every part answers."""

    def __init__(
        self, settings: Settings, supervisor: Supervisor, report: Report, migration: Future[None]
    ) -> None:
        self._settings = settings
        self._supervisor = supervisor
        self._report = report
        self._migration = migration
        self._waiting_for = list(parts_of(settings))
        self._airflow_started = False

    def wait(self) -> None:
        deadline = time.monotonic() + self._settings.start_timeout_s
        while self._waiting_for:
            self._start_airflow_when_migrated()
            states = self._supervisor.states()
            health = airflow_health(self._settings) if self._airflow_started else None
            for part in tuple(self._waiting_for):
                self._check(part, states.get(part.name), health)
            if time.monotonic() > deadline:
                raise StartError(self._late())
            if self._waiting_for:
                time.sleep(_POLL_S)

    def _start_airflow_when_migrated(self) -> None:
        if self._airflow_started or not self._migration.done():
            return
        self._migration.result()
        self._report("database", READY)
        for part in AIRFLOW_PARTS:
            self._supervisor.start_part(part)
            self._report(part.name, "starting")
        self._airflow_started = True

    def _check(self, part: Part, state: PartState | None, health: dict[str, object] | None) -> None:
        if part in AIRFLOW_PARTS and not self._airflow_started:
            return
        if state is None or state.state == "FATAL":
            raise StartError(f"{part.what} does not stay up. {self._log(part)}")
        if state.state == "RUNNING" and answers(part, state, self._settings, health):
            self._waiting_for.remove(part)
            self._report(part.name, READY)

    def _late(self) -> str:
        names = ", ".join(part.what for part in self._waiting_for)
        logs = "\n".join(self._log(part) for part in self._waiting_for)
        return (
            f"after {self._settings.start_timeout_s:g} s still waiting for: {names}. {logs}\n"
            "On a slow machine set STATEWARD_START_TIMEOUT_S."
        )

    def _log(self, part: Part) -> str:
        path = Layout.of(self._settings).part_log(part.name)
        tail = path.read_text(errors="replace")[-1500:] if path.exists() else "(empty)"
        return f"Its log, {path}, ends:\n{tail}"


def port_fields(settings: Settings) -> dict[str, int]:
    """Return every port the platform would listen on, by field of `Settings`."""
    return {
        field: int(getattr(settings, field)) for part in parts_of(settings) for field in part.port_settings
    }


def ports_are_free(settings: Settings) -> bool:
    """Return whether every port the platform needs is free now."""
    return all(is_free(port, settings.bind_host) for port in port_fields(settings).values())
