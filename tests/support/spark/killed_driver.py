"""A driver that is killed repeatedly and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.spark.launches import Launch
from tests.support.waiting import PATIENCE_S, wait_until


class Driven:
    """Runs a launch until it is drained.

    Args:
        launch: What it runs.
        changes: Changes of the launch's configuration.
    """

    def __init__(self, launch: Launch, changes: Mapping[str, Any]) -> None:
        self._launch = launch
        self._changes = changes
        self._number = 0
        self._driver: subprocess.Popen[bytes] = self._started()

    @property
    def run_id(self) -> str:
        """Run id of the current launch."""
        return f"run-{self._number}"

    def kill_once(self, delivered: int, pause_s: float) -> bool:
        """SIGKILL some seconds after a number of records is delivered.

        Returns:
            Whether records were waiting then.
        """
        self.wait(f"{delivered} records are read", lambda status: (status["delivered"] or 0) >= delivered)
        threading.Event().wait(pause_s)
        at_work = bool(self._launch.status()["lag_records"])
        os.killpg(self._driver.pid, signal.SIGKILL)
        self._driver.wait()
        self._driver = self._started()
        return at_work

    def wait(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status of this launch."""

        def look() -> dict[str, Any] | None:
            status = self._launch.status()
            return status if status.get("run_id") == self.run_id and reached(status) else None

        def message() -> str:
            return f"{what}: {self._launch.status()} {self._launch.log(self.run_id).read_text()[-2000:]}"

        return wait_until(look, PATIENCE_S, message)

    def drain(self) -> None:
        """SIGTERM, and wait for its end."""
        self._driver.send_signal(signal.SIGTERM)
        assert self._driver.wait(PATIENCE_S) == 0, self._launch.log(self.run_id).read_text()[-2000:]

    def start_again(self) -> None:
        """Start the next launch; after `drain`."""
        self._driver = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        self._number += 1
        return self._launch.start(self.run_id, **self._changes)
