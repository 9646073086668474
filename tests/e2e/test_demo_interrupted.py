"""Ctrl-C and SIGTERM during the demo leave no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stateward.platform.processes import find_owned
from tests.support.control.installation import STATEWARD
from tests.support.full import only_full
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("number", "last_part"),
    [
        pytest.param(signal.SIGINT, "kafka", id="SIGINT while Kafka starts"),
        pytest.param(signal.SIGTERM, "triggerer", id="SIGTERM while Airflow starts", marks=only_full),
    ],
)
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals, last_part: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STATEWARD_")}
    environ["STATEWARD_HOME"] = str(tmp_path)
    home = tmp_path / "demo"
    log = tmp_path / "demo.log"
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, "-m", "proof.demo"],
            env=environ,
            stdout=output,
            stderr=subprocess.STDOUT,
            # As a terminal does, SIGINT goes to the whole group; the parts are in sessions of their own.
            start_new_session=True,
        )
    try:

        def started() -> bool:
            assert demo.poll() is None, f"the demo ended: {log.read_text()}"
            return any(one.part == last_part for one in find_owned(home))

        wait_until(started, PATIENCE_S, lambda: f"the demo has started {last_part}: {log.read_text()}")
        if number == signal.SIGINT:
            os.killpg(demo.pid, number)
        else:
            demo.send_signal(number)
        assert demo.wait(PATIENCE_S) == 130, log.read_text()
        assert find_owned(home) == []
    finally:
        if demo.poll() is None:
            demo.kill()
        subprocess.run([STATEWARD, "down"], env={**environ, "STATEWARD_HOME": str(home)}, check=True)
