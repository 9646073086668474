"""What a stream of the project makes of events, and whether its YAML, declaration and suites agree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from stateward.control.launchers.launch import resolved_configuration
from stateward.project.project import Project
from stateward.project.settings import Settings
from stateward.project.spec import load_specs
from stateward.quality.suites.project_check import problems
from stateward.runtime.api.any_job import configured
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.tables import DEAD_LETTERS, LATE_EVENTS
from stateward.testing.declarations import TODAY_MS, config_of
from stateward.trial.from_lines import Found, Line, rows_of


def tried(
    stream: str, events: Iterable[Mapping[str, Any] | bytes | str], *, topic: str = "", now_ms: int = TODAY_MS
) -> Found:
    """Run a stream on events, as `stateward try` does (docs/try.md).

    Args:
        stream: The stream.
        events: Its records, in the order in which they arrive; bytes and texts are values as they are.
        topic: The topic; by default the stream's first.
        now_ms: The broker's time, milliseconds since 1970 UTC; by default 2026-01-01.

    Raises:
        StreamCodeError: The stream's code fails; the number of the line is that of the event.

    Returns:
        What the stream makes of them; a table without a row has an empty list.
    """
    config = config_of(stream)
    job = configured(Project.imported().declaration(stream), config)
    lines = [
        Line("events", topic or config.topic, number, _value(event)) for number, event in enumerate(events, 1)
    ]
    found = rows_of(job, config, lines, now_ms)
    outputs = (job.output,) if isinstance(job, LandingJob) else job.outputs
    for table in (*(one.table for one in outputs), DEAD_LETTERS, LATE_EVENTS):
        found.rows.setdefault(table.name, [])
    return found


def check_project() -> None:
    """Check every YAML, declaration and suite of the project, as `stateward validate` does.

    Raises:
        AssertionError: Something is wrong; the text says what.
    """
    settings = Settings()
    specs, wrong = load_specs(settings.streams)
    given = {
        spec.stream: {
            "tables": spec.tables,
            "topics": spec.source.names,
            "lookups": list(spec.lookups),
            "file": str(settings.streams / f"{spec.stream}.yaml"),
            "config": resolved_configuration(spec, settings, "test"),
        }
        for spec in specs
    }
    found = [*map(str, wrong), *problems(settings.suites, given)]
    assert found == [], "\n".join(found)


def _value(event: Mapping[str, Any] | bytes | str) -> bytes:
    if isinstance(event, bytes):
        return event
    return (event if isinstance(event, str) else json.dumps(event)).encode()
