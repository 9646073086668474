"""What is particular to the streams on Spark's own operators, without an engine."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.event_windows.model import WindowSettings
from stateward.project.settings import CHECKOUT
from stateward.project.spec import SpecError, load_spec
from stateward.runtime.api.record_fields import Reason
from stateward.testing.declarations import ABSENT, Records


def test_the_shipped_settings_are_the_defaults() -> None:
    windows, join = load_spec("event_windows"), load_spec("payment_auth_join")
    assert windows.logic.config() == {"size_ms": 300_000, "slide_ms": 60_000}
    assert join.logic.config() == {"before_ms": 120_000, "after_ms": 120_000}
    for spec in (windows, join):
        assert spec.event_time.allowed_lateness == timedelta(minutes=10)
        # The id of the last event is remembered for ten minutes after the watermark has reached it.
        assert spec.longest_timeout == timedelta(minutes=20)
    windows, keyed = load_spec("session_windows"), load_spec("user_sessions")
    # So that both write the same rows from the same topic.
    assert windows.logic.config()["gap_ms"] == keyed.logic.config()["gap_ms"]
    assert windows.event_time == keyed.event_time


def test_a_slide_beyond_the_size_is_refused(tmp_path: Path) -> None:
    shipped = (CHECKOUT / "include" / "streams" / "event_windows.yaml").read_text()
    (tmp_path / "event_windows.yaml").write_text(shipped + "logic: {slide: 6m}\n")
    with pytest.raises(SpecError, match=r"logic\.slide to be at most logic\.size \(5m\)"):
        load_spec("event_windows", tmp_path)
    WindowSettings(slide_ms=300_000).check()


@pytest.mark.parametrize(
    ("stream", "changes", "reason"),
    [
        ("event_windows", {"value": None}, None),
        ("event_windows", {"value": -1e12}, None),
        ("event_windows", {"value": -1.1e12}, Reason.VALUE_OUT_OF_RANGE),
        ("payment_auth_join", {"amount": ABSENT}, None),
        ("payment_auth_join", {"amount": -0.01}, Reason.VALUE_OUT_OF_RANGE),
    ],
)
def test_which_numbers_are_events_and_which_dead_letters(
    stream: str, changes: dict[str, Any], reason: Reason | None
) -> None:
    assert Records(stream).reason(**changes) == reason
