"""Carry decisions out, one at a time for each stream; what should be is written before it is done.

The lock is a file lock under `STATEWARD_HOME`: it serialises the tasks of one machine. Airflow workers
on several machines need the lease as well, which fences the drivers themselves: of two that are
started, one is refused.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import filelock
from msgspec.structs import replace

from stateward.contract.process_identity import host_identity
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Launch, reason_of_end
from stateward.control.health.thresholds import Thresholds
from stateward.control.launchers import processes
from stateward.control.launchers.driver_exit import Presence
from stateward.control.launchers.driver_process import Prepared
from stateward.control.launchers.drivers import driver_of
from stateward.control.reconcile import start_queue
from stateward.control.reconcile.decide import Action, Kill, Observed, decide
from stateward.control.reconcile.decide import Launch as LaunchAction
from stateward.control.reconcile.desired_state import Wish, declare, first, wanted
from stateward.control.reconcile.observe import observe, read_control, thresholds_of
from stateward.control.reconcile.watch_clock import WatchClock
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

log = logging.getLogger(__name__)

_LOCK_TIMEOUT_S = 120.0
_KILL_TIMEOUT_S = 10.0


class Launcher(Protocol):
    """Starts a driver: the one thing that needs Airflow, so that all else is tested without."""

    def prepare(self, run_id: str, now: datetime, release: str | None) -> Prepared:
        """Get everything ready for a launch of a release; None: the current code and YAML."""

    def start(self, launch: Launch) -> Launch:
        """Start the driver that was prepared, and add to its launch where it is."""


@dataclass(frozen=True)
class Controller:
    """Brings one stream to its desired state, step by step."""

    spec: StreamSpec
    settings: Settings
    launcher: Launcher

    @property
    def layout(self) -> Layout:
        """Where the stream's documents lie."""
        return Layout.of(self.settings)

    @property
    def limits(self) -> Thresholds:
        """The stream's thresholds."""
        return thresholds_of(self.spec)

    def request(self, wish: Wish) -> None:
        """Write down what someone wants; `reconcile` brings it about.

        Raises:
            InvalidDocumentError: The control document cannot be read.
            WishError: A reason is missing.
        """
        stream, declared = self.spec.stream, self.spec.desired
        with locked(self.layout, stream):
            known = read_control(self.layout, stream)
            if known is None and declared == "running" and wish.action == "stop":
                return
            run_id = new_run_id(wish.at)
            before = known or first(stream, declared, wish, run_id)
            control = declare(before, declared, run_id, wish.at) or before
            control = wanted(control, wish, run_id) or control
            if control != known:
                self._write(control)

    def reconcile(self, clock: WatchClock | None = None) -> Action:
        """Observe, decide and act once.

        Args:
            clock: That of the watch; a single look without one.

        Returns:
            What was decided, and done.

        Raises:
            InvalidDocumentError: The control document cannot be read.
            LaunchError: A driver could not be submitted.
        """
        with locked(self.layout, self.spec.stream):
            now = datetime.now(UTC)
            seen = observe(self.layout, self.spec.stream)
            seen = self._declared(clock.see(seen, now) if clock else seen, now)
            action = decide(self.limits, seen, now)
            if isinstance(action, LaunchAction) and seen.control is not None:
                return self._launch_in_turn(action, seen.control, now)
            if isinstance(action, Kill) and seen.control is not None and seen.control.launch is not None:
                self._kill(action, seen, seen.control, seen.control.launch)
            return action

    def _declared(self, seen: Observed, now: datetime) -> Observed:
        """Bring what the YAML declares into what should be, before anything is decided by it."""
        if seen.control is None:
            return seen
        told = declare(seen.control, self.spec.desired, new_run_id(now), now)
        if told is None:
            return seen
        log.info("stream %s: its YAML declares it %s", self.spec.stream, self.spec.desired)
        self._write(told)
        return dataclasses.replace(seen, control=told)

    def start_afresh(self, by: str) -> None:
        """Forget earlier failures, so that a person's new attempt is not refused for them."""
        with locked(self.layout, self.spec.stream):
            seen = observe(self.layout, self.spec.stream)
            control, status = seen.control, seen.own_status
            if control is None:
                return
            if control.desired == "running" and status is not None and status.lasting_cause is not None:
                # Only another launch can tell whether the cause has been mended.
                now = datetime.now(UTC)
                afresh = replace(control, run_id=new_run_id(now), requested_at=now, reason="asked to run")
                # What a person has mended meanwhile may be the code.
                self._write(replace(afresh, restarts=(), requested_by=by, release=None))
            elif control.restarts and seen.driver is Presence.GONE:
                self._write(replace(control, restarts=(), requested_by=by, release=None))

    def _launch_in_turn(self, action: LaunchAction, control: Control, now: datetime) -> Action:
        stream = self.spec.stream
        with start_queue.only_launch(self.layout) as mine:
            others, slots = ["the one that is launched now"], 1
            if mine:
                others = start_queue.starting(self.layout, stream, now, self.limits.start_deadline)
                slots = self.settings.starts_at_once
            found = start_queue.in_turn(action, others, slots)
            if isinstance(found, LaunchAction):
                log.info("stream %s: launch (%s)", stream, action.reason)
                self._launch(action, control, now)
            return found

    def _kill(self, action: Kill, seen: Observed, control: Control, launch: Launch) -> None:
        log.warning("stream %s: %s (%s)", self.spec.stream, action.how, action.reason)
        ended = replace(launch, end_reason=action.reason)
        self._write(replace(control, reason=reason_of_end(action.reason), launch=ended))
        self._end(action, seen, launch)

    def _launch(self, action: LaunchAction, control: Control, now: datetime) -> None:
        # A JVM that was killed leaves its Python behind, which may still write.
        left = processes.kill(processes.find_by_env(self.layout.home, self.spec.stream), _KILL_TIMEOUT_S)
        if left:
            log.error("stream %s: processes %s cannot be killed", self.spec.stream, [p.pid for p in left])
        run_id = control.run_id if control.launch_pending else new_run_id(now)
        ready = self.launcher.prepare(run_id, now, control.release)
        launch = Launch(
            run_id=run_id,
            at=now,
            host=host_identity(),
            log=str(ready.log),
            failure=action.failure,
            application=ready.application,
        )
        restarts = (*control.restarts, now) if action.after_failure else control.restarts
        recent = tuple(at for at in restarts if now - at <= self.limits.window)
        intended = replace(
            control,
            run_id=run_id,
            launch=launch,
            reason=action.reason,
            restarts=recent,
            failures=control.failures + action.after_failure,
            failures_since=control.failures_since or now,
            release=ready.release,
        )
        self._write(intended)
        started = self.launcher.start(launch)
        self._write(replace(intended, launch=started))
        application = started.application
        where = f"process {started.pid}" if application is None else f"application {application.id or '?'}"
        log.info(
            "stream %s: driver %s of release %s started as %s, log %s",
            self.spec.stream,
            run_id,
            ready.release,
            where,
            started.log_address,
        )

    def _end(self, action: Kill, seen: Observed, launch: Launch) -> None:
        stream = self.spec.stream
        if seen.driver is not Presence.ALIVE:
            log.warning("stream %s: its driver on %s reads that it has to end", stream, launch.host)
            return
        driver = driver_of(self.layout.home, stream, launch)
        if action.how == "terminate":
            driver.terminate()
        elif left := driver.kill():
            log.error("stream %s: %s survives SIGKILL", stream, ", ".join(left))

    def _write(self, control: Control) -> None:
        write_json(self.layout.control_uri(self.spec.stream), as_json(control))


def new_run_id(now: datetime) -> str:
    """Name a launch: sorts by time, and never names two."""
    return f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


@contextmanager
def locked(layout: Layout, stream: str) -> Iterator[None]:
    """Hold the stream's lock: one process of this machine decides about it at a time.

    Raises:
        TimeoutError: Someone else has held it for two minutes, far longer than any step takes.
    """
    file = layout.home / "locks" / f"{stream}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(file, timeout=_LOCK_TIMEOUT_S):
            yield
    except filelock.Timeout:
        raise TimeoutError(
            f"stream {stream}: another process has held {file} for {_LOCK_TIMEOUT_S:.0f} s. Find it with"
            f" `fuser {file}` and end it."
        ) from None


def log_tail(layout: Layout, control: Control | None, lines: int = 40) -> str:
    """Return the last lines of the newest driver's log, under its path, for an error message."""
    if control is None or control.launch is None:
        return "No driver was ever started."
    try:
        text = driver_of(layout.home, control.stream, control.launch).log_end()
    except OSError as error:
        return f"Its log cannot be read: {error}"
    tail = "\n".join(text.splitlines()[-lines:])
    return f"The last lines of {control.launch.log_address}:\n{tail}"
