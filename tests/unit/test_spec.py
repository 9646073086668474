"""A stream's YAML: what is accepted, and what a person is told when it is not."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.durations import format_duration, parse_duration
from include.spec import STREAMS_FOLDER, SpecError, StreamSpec, load_spec, load_specs
from include.spec_logic import MODELS, FraudWatchLogic
from include.spec_schema import SCHEMA_FILE, schema_text

SHIPPED = (STREAMS_FOLDER / "user_sessions.yaml").read_text()
FRAUD = (STREAMS_FOLDER / "fraud_watch.yaml").read_text()
SMALL = {
    "stream": "small",
    "description": "Small.",
    "owner": "me",
    "source": {"topic": "t"},
    "event_time": {"allowed_lateness": "0s"},
    "tables": ["rows"],
}


def test_every_shipped_spec_is_valid() -> None:
    specs, problems = load_specs()
    assert problems == []
    assert [spec.stream for spec in specs] == sorted(path.stem for path in STREAMS_FOLDER.glob("*.yaml"))


def test_durations_of_the_logic_become_milliseconds() -> None:
    spec = load_spec("user_sessions")
    assert spec.logic.config() == {"gap_ms": 1_800_000, "max_gap_ms": 86_400_000, "max_held_events": 10_000}


def test_every_shipped_stream_has_a_model_of_its_settings() -> None:
    assert sorted(spec.stream for spec in load_specs()[0]) == sorted(MODELS)


def test_the_shipped_settings_of_fraud_watch_are_the_defaults_of_its_model() -> None:
    spec = load_spec("fraud_watch")
    assert spec.logic == FraudWatchLogic()
    assert (spec.tables, spec.emission) == (["fraud_alerts", "fraud_summaries"], "watermark")
    assert spec.logic.config() == {
        "velocity_count": 5,
        "velocity_amount": 5000.0,
        "velocity_window_ms": 600_000,
        "authentication_window_ms": 120_000,
        "idle_ms": 1_800_000,
        "review_ms": 86_400_000,
        "safety_ms": 90_000_000,
        "max_held_events": 10_000,
    }


def test_a_stream_without_a_model_has_settings_of_any_name(tmp_path: Path) -> None:
    logic = {"horizon": "20m", "steps": 3, "strict": True, "mode": "fast", "ratio": 0.5}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**SMALL, "logic": logic}))
    spec = load_spec("small", tmp_path)
    assert spec.logic.config() == {
        "horizon_ms": 1_200_000,
        "steps": 3,
        "strict": True,
        "mode": "fast",
        "ratio": 0.5,
        "max_held_events": 10_000,
    }
    assert spec.longest_timeout == timedelta(minutes=20)

    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**SMALL, "logic": {"steps": [1]}}))
    with pytest.raises(SpecError, match=r"logic\.steps: expected a duration, a number, text, true or false"):
        load_spec("small", tmp_path)


def test_longest_timeout_covers_lateness_and_the_longest_duration() -> None:
    assert load_spec("user_sessions").longest_timeout == timedelta(hours=24, minutes=2)


def test_only_what_has_no_default_is_required(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    spec = load_spec("small", tmp_path)
    assert (spec.trigger_interval, spec.lease.ttl) == (timedelta(seconds=1), timedelta(seconds=20))
    assert (spec.state.buckets, spec.state.cache) == (64, None)
    assert spec.logic.config() == {"max_held_events": 10_000}
    assert spec.quality is None


BAD = [
    pytest.param(
        "  buckets: 64 ",
        "  buckets: 0 ",
        ["state.buckets", "a number of at least 1", "0 (int)"],
        id="no-bucket",
    ),
    pytest.param(
        "  buckets: 64 ", "  buckets: 2000 ", ["state.buckets", "a number of at most 1024"], id="many-buckets"
    ),
    pytest.param(
        "  cache: null ", "  cache: here ", ["state.cache", "an absolute path", "'here'"], id="relative-cache"
    ),
    pytest.param(
        "  allowed_lateness: 2m",
        "  allowed_lateness: 120",
        ["event_time.allowed_lateness", "expected a duration such as", "120 (int)"],
        id="number-without-unit",
    ),
    pytest.param(
        "  allowed_lateness: 2m",
        "  allowed_latness: 2m",
        ["event_time.allowed_latness", "unknown field", "`allowed_lateness`"],
        id="typo",
    ),
    pytest.param(
        "  topic: user_events",
        "  # gone",
        ["source.topic", "found nothing", "Add `topic` under `source`"],
        id="missing",
    ),
    pytest.param(
        "  topic: user_events",
        "  topic: user_events\n  topics: [user_events]",
        ["source.topic", "either topic or topics, not both"],
        id="topic-and-topics",
    ),
    pytest.param(
        "  topic: user_events",
        "  topics: [a, b, a]",
        ["source.topic", "each of topics once"],
        id="topic-twice",
    ),
    pytest.param(
        "  topic: user_events",
        "  topics: []",
        ["source.topics", "at least one entry"],
        id="no-topics",
    ),
    pytest.param("owner: stateward", "", ["owner", "Add `owner` at the top level"], id="missing-at-top"),
    pytest.param(
        "emission: watermark",
        "emission: sometimes",
        ["emission", "'watermark' or 'eager'", "'sometimes'"],
        id="enum",
    ),
    pytest.param(
        "jitter: 0s", "jitter: 5", ["timeout.jitter", "expected a duration such as", "5 (int)"], id="jitter"
    ),
    pytest.param(
        "  topic_partitions: 3",
        "  topic_partitions: 0",
        ["source.topic_partitions", "a number above 0", "0 (int)"],
        id="zero",
    ),
    pytest.param(
        "  topic_partitions: 3",
        '  topic_partitions: "3"',
        ["source.topic_partitions", "a whole number", "'3'"],
        id="text-for-number",
    ),
    pytest.param(
        "  topic_partitions: 3",
        "  topic_partitions: yes",
        ["source.topic_partitions", "a whole number", "True"],
        id="yes-for-number",
    ),
    pytest.param(
        "lease: {ttl: 20s, renew: 5s}",
        "lease: {ttl: 20s, renew: 8s}",
        ["lease", "at most a third of lease.ttl (20s)"],
        id="lease-too-slow",
    ),
    pytest.param(
        "  conf: {}",
        "  conf: {spark.ui.enabled: false}",
        ["spark.conf.spark.ui.enabled", "text", "False (bool)"],
        id="conf-not-text",
    ),
    pytest.param(
        '  not_before: "2000-01-01T00:00:00Z"',
        '  not_before: "2000-01-01"',
        ["source.not_before", "a time with its zone"],
        id="time-without-zone",
    ),
    pytest.param(
        "  table: sessions",
        "  table: session",
        ["quality.table to be one of tables ['sessions']"],
        id="quality-of-unknown-table",
    ),
    pytest.param(
        '  schedule: "0 3 * * *"',
        '  schedule: "daily at 3"',
        ["quality.schedule", "cron expression of five fields"],
        id="cron",
    ),
    pytest.param(
        "tables: [sessions]", "tables: [sessions, late_events]", ["tables", "late_events"], id="shared-table"
    ),
    pytest.param(
        "tables: [sessions]", "tables: [Sessions!]", ["tables[0]", "text of the form"], id="table-name"
    ),
    pytest.param(
        "  driver_memory: 1g", "  driver_memory: 1 GB", ["spark.driver_memory", "'1 GB'"], id="memory"
    ),
    pytest.param(
        "stream: user_sessions",
        "stream: sessions",
        ["the name of the file, 'user_sessions'", "Rename the file to sessions.yaml"],
        id="file-name",
    ),
    pytest.param(
        "emission: watermark",
        "emission: watermark\nemission: eager",
        ["emission", "each field once", "Remove one"],
        id="duplicate-key",
    ),
    pytest.param(
        "emission: watermark", "emission: [watermark", ["expected YAML", "Correct the syntax"], id="syntax"
    ),
    pytest.param("  gap: 30m  ", "  gap: [30m]  ", ["logic.gap", "a duration", "(list)"], id="logic-list"),
    pytest.param(
        "  gap: 30m  ", "  gapp: 30m  ", ["logic.gapp", "one of gap, max_gap", "`gap`"], id="logic-typo"
    ),
    pytest.param(
        "  gap: 30m  ", "  gap: 48h  ", ["logic", "logic.gap to be at most logic.max_gap (1d)"], id="gap"
    ),
    pytest.param(
        "  max_status_age: 15s",
        "  max_status_age: 0s",
        ["health.max_status_age", "a duration above zero"],
        id="zero-duration",
    ),
]


@pytest.mark.parametrize(("line", "replacement", "parts"), BAD)
def test_a_bad_field_is_named_with_line_expectation_finding_and_remedy(
    tmp_path: Path, line: str, replacement: str, parts: list[str]
) -> None:
    assert line in SHIPPED
    file = tmp_path / "user_sessions.yaml"
    file.write_text(SHIPPED.replace(line, replacement, 1))
    with pytest.raises(SpecError) as caught:
        load_spec("user_sessions", tmp_path)
    text = str(caught.value)
    assert all(part in text for part in [str(file), "expected", "found", *parts]), text


@pytest.mark.parametrize(
    ("line", "replacement", "parts"),
    [
        ("velocity_count: 5 ", "velocity_count: 0 ", ["logic.velocity_count", "at least 1", "0 (int)"]),
        ("velocity_count: 5 ", "velocity_count: 5.0 ", ["logic.velocity_count", "a whole number"]),
        ("velocity_amount: 5000", "velocity_amount: many", ["logic.velocity_amount", "a number", "'many'"]),
        ("velocity_amount: 5000", "velocity_amount: 0", ["logic.velocity_amount", "at least 1e-06"]),
        ("idle: 30m", "idle: 0s", ["logic.idle", "a duration above zero"]),
        ("idle: 30m", "idel: 30m", ["logic.idel", "an unknown field", "Rename it to `idle`"]),
        ("idle: 30m", "idle: 5m", ["logic.authentication_window to be at most logic.idle (5m)"]),
        ("safety: 25h", "safety: 24h", ["logic.safety to be longer than logic.idle and logic.review (1d)"]),
    ],
)
def test_a_bad_setting_of_fraud_watch_is_named(
    tmp_path: Path, line: str, replacement: str, parts: list[str]
) -> None:
    assert line in FRAUD
    (tmp_path / "fraud_watch.yaml").write_text(FRAUD.replace(line, replacement, 1))
    with pytest.raises(SpecError) as caught:
        load_spec("fraud_watch", tmp_path)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_a_stream_may_emit_on_arrival(tmp_path: Path) -> None:
    (tmp_path / "fraud_watch.yaml").write_text(FRAUD.replace("emission: watermark", "emission: eager"))
    assert load_spec("fraud_watch", tmp_path).emission == "eager"


def test_a_stream_may_run_by_processing_time(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**SMALL, "clock": "processing"}))
    assert load_spec("small", tmp_path).clock == "processing"
    assert load_spec("user_sessions").clock == "event"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clock": "sundial"}, "clock: expected one of 'event' or 'processing', found 'sundial'"),
        ({"clock": "processing", "emission": "eager"}, "no emission with clock: processing"),
        (
            {"clock": "processing", "source": {"topic": "t", "tick": {"mode": "record"}}},
            r"source\.tick\.mode to be auto or wall_clock",
        ),
    ],
)
def test_what_contradicts_the_clock_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**SMALL, **change}))
    with pytest.raises(SpecError, match=said):
        load_spec("small", tmp_path)


def test_a_jitter_delays_the_end_of_the_last_key(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**SMALL, "timeout": {"jitter": "90s"}}))
    assert load_spec("small", tmp_path).longest_timeout == timedelta(seconds=90)


def test_limits_of_the_state_have_defaults_and_an_order(tmp_path: Path) -> None:
    limits = load_spec("user_sessions").state.limits
    assert (limits.warn_bytes, limits.critical_bytes) == (10**9, 5 * 10**9)
    document = {**SMALL, "state": {"limits": {"warn_bytes": 2, "critical_bytes": 1}}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(SpecError, match="expected warn_bytes to be at most critical_bytes, found 2 and 1"):
        load_spec("small", tmp_path)


def test_the_line_number_is_that_of_the_field(tmp_path: Path) -> None:
    text = SHIPPED.replace("  renew: 5s", "").replace("  max_status_age: 15s", "  max_status_age: soon")
    wanted = next(number for number, line in enumerate(text.splitlines(), 1) if "soon" in line)
    (tmp_path / "user_sessions.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_spec("user_sessions", tmp_path)
    assert caught.value.problems[0].line == wanted


@pytest.mark.parametrize("content", [b"", b"- a\n- b\n", b"just text", b"\xff\xfe\x00", b"a: \x00"])
def test_a_file_that_is_no_mapping_is_a_problem_and_not_a_crash(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.yaml").write_bytes(content)
    specs, problems = load_specs(tmp_path)
    assert specs == []
    assert [problem.stream for problem in problems] == ["odd"]


def test_a_bad_file_leaves_the_others_alone(tmp_path: Path) -> None:
    shutil.copy(STREAMS_FOLDER / "user_sessions.yaml", tmp_path)
    (tmp_path / "broken.yaml").write_text("stream: [")
    specs, problems = load_specs(tmp_path)
    assert [spec.stream for spec in specs] == ["user_sessions"]
    assert [problem.stream for problem in problems] == ["broken"]


def test_every_problem_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    text = SHIPPED.replace("owner: stateward", "ownr: x").replace("max_ahead: 1h", "max_ahead: 1")
    (tmp_path / "user_sessions.yaml").write_text(text)
    _, problems = load_specs(tmp_path)
    assert {problem.field for problem in problems} == {"owner", "ownr", "source.max_ahead"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.yaml"):
        load_spec("absent", tmp_path)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("15s", timedelta(seconds=15)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
    ],
)
def test_durations_are_read_and_written(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration
    assert format_duration(duration) == text


@pytest.mark.parametrize("text", ["", "m", "5", "5 m", "-5m", "1.5h", "5M", 5, None, "9" * 30 + "d"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        parse_duration(text)


def test_the_editors_schema_is_current() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "run `python -m include.spec_schema`"


def test_savepoints_on_schedule_are_asked_for_and_have_a_policy(tmp_path: Path) -> None:
    def load(section: dict[str, Any]) -> StreamSpec:
        (tmp_path / "small.yaml").write_text(yaml.safe_dump({**SMALL, "savepoints": section}))
        return load_spec("small", tmp_path)

    found = load({"schedule": "0 4 * * *"}).savepoints
    assert found is not None
    assert (found.keep, found.days) == (3, 7)
    for section, problem in (
        ({"schedule": "daily"}, r"savepoints\.schedule: expected a cron expression of five fields"),
        ({"schedule": "0 4 * * *", "keep": 0}, r"savepoints\.keep: expected a number above 0"),
        ({"keep": 2}, r"savepoints\.schedule"),
    ):
        with pytest.raises(SpecError, match=problem):
            load(section)
