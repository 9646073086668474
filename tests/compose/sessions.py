"""Page views that a project is sent, and the sessions that come of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.compose.project import Project
from tests.support.control.installation import STATEWARD
from tests.support.streams.event_files import (
    KNOWN_EVENTS,
    KNOWN_SESSIONS,
    as_line,
    shifted,
    web_events,
    write_lines,
)
from tests.support.waiting import wait_until

STREAM = "user_sessions"
KNOWN = (KNOWN_SESSIONS, KNOWN_EVENTS)
DEADLINE_S = 900


def send(bootstrap: str, *command: str) -> None:
    """Run a command of this checkout, as a program of this machine, against a broker."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STATEWARD_")}
    environ["STATEWARD_KAFKA_BOOTSTRAP"] = bootstrap
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def send_later_events(project: Project, folder: Path, days: int, prefix: str) -> None:
    """Send the 10,000 page views once more, `days` later, with users of their own."""
    lines = [as_line(event) for event in shifted(web_events(), days, prefix)]
    file = write_lines(folder / "events.jsonl", lines)
    send(
        f"localhost:{project.kafka_port}", STATEWARD, "replay", str(file), "--topic", "user_events", "--tick"
    )


def wait_in_the_middle(project: Project, before: int) -> None:
    """Wait until some of 10,000 further records are committed, and others wait."""
    seen: dict[str, Any] = {}

    def some_are_read() -> bool:
        seen.update(project.stream(STREAM))
        delivered, lag = seen["counters"]["delivered"], seen["lag_records"]
        assert delivered < before + KNOWN_EVENTS, "all were read before anybody looked"
        return bool(delivered > before and lag)

    wait_until(some_are_read, DEADLINE_S, lambda: f"{STREAM} is in the middle of them; found {seen}")


def wait_for_sessions(project: Project, prefix: str) -> None:
    """Wait until the sessions of a scenario's users are the known ones."""
    found: list[object] = []

    def known() -> bool:
        found[:] = project.sessions_of(prefix)
        return tuple(found) == KNOWN

    wait_until(
        known,
        DEADLINE_S,
        lambda: f"{prefix} has {KNOWN}; found {found}; {project.stream(STREAM)}; {project.log('scheduler')}",
        poll_s=2,
    )


def wait_for_validation(project: Project) -> None:
    """Wait until the sessions of the first 10,000 events are validated, and expect that all passed."""
    found: list[dict[str, Any]] = []

    def validated() -> bool:
        found[:] = project.validations(STREAM)
        return any(row["table_rows"] == KNOWN_SESSIONS for row in found)

    wait_until(validated, DEADLINE_S, lambda: f"all sessions are validated; found {found}", poll_s=2)
    assert {row["failed"] for row in found} == {0}
