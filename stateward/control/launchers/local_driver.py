"""A driver that is a process of this host, or of another one that only its status can tell of.

A `spark-submit` that hands a driver over to a cluster is such a process too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateward.contract.process_identity import host_identity, is_alive
from stateward.contract.stream_control import Application, Launch
from stateward.control.launchers import detach, driver_process, processes
from stateward.control.launchers.driver_exit import Ending, Exit, Presence

_KILL_TIMEOUT_S = 10.0
_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class LocalDriver:
    """See `drivers.LaunchedDriver`."""

    home: Path
    stream: str
    launch: Launch

    def look(self) -> Presence:
        """Tell where its process is, as far as this host can see."""
        if self.launch.host != host_identity():
            return Presence.ELSEWHERE
        if self.launch.pid is None:
            # Whoever decided to launch did not live to write down the process id.
            family = processes.find_by_env(self.home, self.stream, self.launch.run_id)
            return Presence.ALIVE if family else Presence.GONE
        return Presence.ALIVE if is_alive(self.launch.pid, self.launch.pid_started) else Presence.GONE

    def ending(self) -> Ending:
        """Tell how its process has ended, as the process that waited for it has noted in the log."""
        try:
            driver_process.wait_until_noted(Path(self.launch.log))
            end = self.log_end()
        except OSError:
            return Ending(None, "")
        noted = detach.end_noted(end, self.launch.pid)
        return Ending(Exit(*noted) if noted else None, end)

    def terminate(self) -> None:
        """Send its process SIGTERM."""
        family = processes.find_by_env(self.home, self.stream, self.launch.run_id)
        pids = [self.launch.pid] if self.launch.pid is not None else [process.pid for process in family]
        if pids:
            processes.terminate(pids[0])

    def kill(self) -> list[str]:
        """Kill all of its processes, and name those that survive."""
        family = processes.find_by_env(self.home, self.stream, self.launch.run_id)
        left = processes.kill(processes.with_process(family, self.launch.pid), _KILL_TIMEOUT_S)
        return [f"process {process.pid}" for process in left]

    def log_end(self) -> str:
        """Read the last 64 KiB of its log.

        Raises:
            OSError: It cannot be read.
        """
        log = Path(self.launch.log)
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")


@dataclass(frozen=True)
class SubmittedDriver(ABC):
    """What drivers on clusters have in common; see `drivers.ClusterDriver`."""

    home: Path
    stream: str
    launch: Launch
    of: Application

    def log_end(self) -> str:
        """Read the end of its log on the cluster; of that of `spark-submit` before there is one.

        Raises:
            OSError: It cannot be read.
        """
        found = self._find()
        return self._submit.log_end() if found is None else self._log(found)

    @property
    def _submit(self) -> LocalDriver:
        """The `spark-submit` that hands it over."""
        return LocalDriver(self.home, self.stream, self.launch)

    @abstractmethod
    def _find(self) -> dict[str, Any] | None:
        """Return what the cluster says of it; None if it knows none.

        Raises:
            OSError: The cluster does not answer.
        """

    @abstractmethod
    def _log(self, found: Mapping[str, Any]) -> str:
        """Return the end of its log, after what the cluster says of it."""
