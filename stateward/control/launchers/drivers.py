"""The driver of a launch, wherever it runs: whether it is there, how it ended, its log, and its end."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from stateward.contract.stream_control import Application, Launch
from stateward.control.launchers.driver_exit import Ending, Placement, Presence
from stateward.control.launchers.kubernetes_driver import KubernetesDriver
from stateward.control.launchers.local_driver import LocalDriver
from stateward.control.launchers.yarn_driver import YarnDriver


class LaunchedDriver(Protocol):
    """One launch of a stream's driver."""

    def look(self) -> Presence:
        """Tell where it is; `ELSEWHERE` if only its status can tell."""

    def ending(self) -> Ending:
        """Tell how a driver that is gone has ended."""

    def terminate(self) -> None:
        """Ask it to leave; nothing happens when it has left already."""

    def kill(self) -> list[str]:
        """End it, and name what survives that."""

    def log_end(self) -> str:
        """Read the end of its log.

        Raises:
            OSError: It cannot be read.
        """


class ClusterDriver(LaunchedDriver, Protocol):
    """One that a cluster runs."""

    def application(self) -> Application:
        """Return its application, with its id if the cluster has accepted it."""

    def placement(self) -> Placement:
        """Tell how it gets its container; as if it had it at once if that is not known."""


def driver_of(home: Path, stream: str, launch: Launch) -> LaunchedDriver:
    """Return the driver of a launch.

    Args:
        home: `STATEWARD_HOME`; another installation's drivers are none of our business.
        stream: The stream's name.
        launch: The launch.
    """
    if launch.application is None:
        return LocalDriver(home, stream, launch)
    return cluster_driver_of(home, stream, launch, launch.application)


def cluster_driver_of(home: Path, stream: str, launch: Launch, application: Application) -> ClusterDriver:
    """Return the driver of a launch that a cluster runs; see `driver_of`."""
    kind = KubernetesDriver if application.kind == "kubernetes" else YarnDriver
    return kind(home, stream, launch, application)
