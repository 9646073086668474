"""A STAND-IN for a stream's driver, for tests of the control plane only.

It honours the documents of docs/architecture.md (configuration, control, status) as the real driver
does, starts in milliseconds, reads no Kafka and writes no Delta. The real one is put through the same
in tests/e2e. Its last argument is the URI of its configuration, so that it can be what `spark-submit` runs.

Misbehaviour is asked for by files in `STATEWARD_HOME`: `fail` (exit 1 at once; a text in it is the kind of a
lasting cause), `slow` (goes on starting), `deaf` (ignores the control document and SIGTERM), `mute` (stops
reporting). Every start is a line in `starts`.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from stateward.contract.process_identity import host_identity
from stateward.contract.storage import read_json, write_json

HOME = Path(os.environ["STATEWARD_HOME"])
TICK_S = 0.1


def main() -> int:
    config = read_json(sys.argv[-1])
    assert config is not None
    with (HOME / "starts").open("a") as starts:
        starts.write(f"{config['run_id']} {os.getpid()}\n")
    print(f"stand-in driver {config['run_id']}", flush=True)  # noqa: T201
    if (HOME / "fail").exists():
        kind = (HOME / "fail").read_text()
        report(config, "failed", 0, "asked to fail", cause=kind and {"kind": kind, "lasting": True})
        print("ValueError: the reason is in the log", flush=True)  # noqa: T201
        return 1
    lock = (HOME / f"stand-in-{config['stream']}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("refused: another driver holds the lock", flush=True)  # noqa: T201
        return 3
    return serve(config)


def serve(config: dict[str, Any]) -> int:
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    batch, is_up = 0, False
    while True:
        # Once it runs it never starts again, whatever others do.
        is_up = is_up or not (HOME / "slow").exists()
        if not (HOME / "mute").exists():
            report(config, "running" if is_up else "starting", batch, "")
        control = read_json(config["control_uri"]) or {}
        leave = (
            control.get("desired") in ("stopped", "suspended") or control.get("run_id") != config["run_id"]
        )
        # A test makes it deaf before it asks, so this is read last.
        if (leave or asked) and not (HOME / "deaf").exists():
            report(config, "draining", batch, "asked to leave")
            report(config, "stopped", batch, "")
            return 0
        batch += 1
        time.sleep(TICK_S)


def report(config: dict[str, Any], state: str, batch: int, message: str, **more: Any) -> None:
    now = datetime.now(UTC).isoformat()
    started = psutil.Process().create_time()
    document = {
        "version": 1,
        "stream": config["stream"],
        "run_id": config["run_id"],
        "state": state,
        "message": message,
        "epoch": 1,
        "host": host_identity(),
        "pid": os.getpid(),
        "pid_started": started,
        "python_pid": os.getpid(),
        "started_at": datetime.fromtimestamp(started, UTC).isoformat(),
        "updated_at": now,
        "batch_id": batch,
        "last_batch_at": now,
        "caught_up": True,
        "lag_records": 0,
        **{name: value or None for name, value in more.items()},
    }
    write_json(config["status_uri"], json.loads(json.dumps(document)))


if __name__ == "__main__":
    sys.exit(main())
