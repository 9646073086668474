"""Which settings an upgrade changes."""

from __future__ import annotations

from stateward.state.compatibility.setting_changes import changed_settings


def test_each_setting_that_differs_is_named_with_both_values() -> None:
    before = {"version": 1, "run_id": "r1", "logic": {"gap_ms": 1800000, "old": 1}, "topic": "a"}
    now = {"version": 1, "run_id": "r2", "logic": {"gap_ms": 60000}, "topic": "a", "spark_conf": {}}
    assert changed_settings(before, now) == [
        ("logic.gap_ms", "1800000", "60000"),
        ("logic.old", "1", "not there"),
    ]


def test_a_stream_without_a_launch_has_no_changes() -> None:
    assert changed_settings({}, {"topic": "a"}) == []
