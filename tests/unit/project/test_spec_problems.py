"""Messages about a stream's YAML that is not accepted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stateward.project.settings import CHECKOUT
from stateward.project.spec import SpecError, load_spec, load_specs

# As user_sessions.yaml, with every field that has a default.
SHIPPED = Path(__file__).with_name("every_field.yaml").read_text()
STREAMS_FOLDER = CHECKOUT / "include" / "streams"
FRAUD = (STREAMS_FOLDER / "fraud_watch.yaml").read_text()

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
        "emission: watermark",
        "lookups: {users: {table: users}}",
        ["lookups to name those of the stream's settings, of which there are none"],
        id="lookup-of-no-settings",
    ),
    pytest.param(
        "emission: watermark",
        "lookups: {users: {table: 'users?x=1'}}",
        ["lookups.users.table", "'users?x=1'"],
        id="lookup-nowhere",
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
        "  conf: {}",
        '  conf: {spark.dynamicAllocation.enabled: "True"}',
        ["spark.dynamicAllocation.enabled", "that of batch jobs", "Set `executors`", "'True'"],
        id="dynamic-allocation",
    ),
    pytest.param(
        "  conf: {}",
        '  conf: {spark.cores.max: "all"}',
        ["spark.conf", "spark.cores.max to be a whole number above 0, found 'all'"],
        id="cores-not-a-number",
    ),
    pytest.param(
        "  executors: 1 ", "  executors: 0 ", ["spark.executors", "a number above 0"], id="no-executors"
    ),
    pytest.param(
        "emission: watermark",
        "lookups: {sites: {tabel: sites}}\nemission: watermark",
        ["lookups.sites.tabel", "Rename it to `table`"],
        id="typo-in-an-entry",
    ),
    pytest.param(
        '  not_before: "2000-01-01T00:00:00Z"',
        '  not_before: "2000-01-01"',
        ["source.not_before", "a time with its zone"],
        id="time-without-zone",
    ),
    pytest.param(
        "  tables: [sessions]",
        "  tables: [session]",
        [": quality.tables: ", "some of the tables sessions, each once", "['session'] (list)"],
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
    pytest.param(
        "  max_commit_age: 10m",
        "  limits: {lag: {warn: 9, critical: 3}}\n  max_commit_age: 10m",
        ["health.limits.lag", "warn to be at most critical, found 9 and 3"],
        id="limits-order",
    ),
    pytest.param(
        "  max_commit_age: 10m",
        "  limits: {lagg: {warn: 9}}\n  max_commit_age: 10m",
        ["health.limits.lagg", "one of commit_age, ", "Rename it to `lag`"],
        id="limits-typo",
    ),
    pytest.param(
        "  max_commit_age: 10m",
        "  limits: {memory_bytes: {warn: 2GB}}\n  max_commit_age: 10m",
        ["health.limits.memory_bytes.warn", "a whole number", "'2GB'"],
        id="limits-bytes",
    ),
    pytest.param(
        "  max_commit_age: 10m",
        "  limits: {state_commit: {warn: 30}}\n  max_commit_age: 10m",
        ["health.limits.state_commit.warn", "a duration such as", "30 (int)"],
        id="limits-duration",
    ),
    pytest.param(
        "  max_commit_age: 10m",
        "  limits: {key_growth: {warn: 0}}\n  max_commit_age: 10m",
        ["health.limits.key_growth.warn", "0"],
        id="limits-factor",
    ),
    pytest.param(
        "  max_commit_age: 10m",
        "  growth_window: 6h\n  max_commit_age: 10m",
        ["health.growth_window", "a duration from 5m to 5h", "6h"],
        id="growth-window",
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
    ("logic", "parts"),
    [
        ("velocity_count: 0", ["logic.velocity_count", "at least 1", "0 (int)"]),
        ("velocity_count: 5.0", ["logic.velocity_count", "a whole number"]),
        ("velocity_amount: many", ["logic.velocity_amount", "a number", "'many'"]),
        ("velocity_amount: 0", ["logic.velocity_amount", "at least 1e-06"]),
        ("idle: 0s", ["logic.idle", "a duration above zero"]),
        ("idel: 30m", ["logic.idel", "an unknown field", "Rename it to `idle`"]),
        ("idle: 5m", ["logic.authentication_window to be at most logic.idle (5m)"]),
        ("safety: 24h", ["logic.safety to be longer than logic.idle and logic.review (1d)"]),
    ],
)
def test_a_bad_setting_of_fraud_watch_is_named(tmp_path: Path, logic: str, parts: list[str]) -> None:
    (tmp_path / "fraud_watch.yaml").write_text(f"{FRAUD}logic: {{{logic}}}\n")
    with pytest.raises(SpecError) as caught:
        load_spec("fraud_watch", tmp_path)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


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
    text = SHIPPED.replace("owner: stateward", "team: x").replace("max_ahead: 1h", "max_ahead: 1")
    (tmp_path / "user_sessions.yaml").write_text(text)
    _, problems = load_specs(tmp_path)
    assert {problem.field for problem in problems} == {"owner", "team", "source.max_ahead"}


@pytest.mark.parametrize(
    ("line", "misspelled"),
    [("owner: stateward", "ownr: x"), ("  topic: user_events", "  topci: x"), ("event_time:", "event_tme:")],
)
def test_a_misspelled_field_is_one_problem(tmp_path: Path, line: str, misspelled: str) -> None:
    assert line in SHIPPED
    (tmp_path / "user_sessions.yaml").write_text(SHIPPED.replace(line, misspelled, 1))
    _, [problem] = load_specs(tmp_path)
    assert problem.remedy == f"Rename it to `{line.partition(':')[0].strip()}`."


def test_a_field_that_is_there_beside_its_misspelling_is_judged(tmp_path: Path) -> None:
    (tmp_path / "user_sessions.yaml").write_text(SHIPPED.replace("owner: stateward", "owner: 1\nownr: x", 1))
    _, problems = load_specs(tmp_path)
    assert {problem.field for problem in problems} == {"owner", "ownr"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"absent\.yaml"):
        load_spec("absent", tmp_path)


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside", "A", "", "x" * 64])
def test_a_name_leads_to_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "outside.yaml").write_text("password: swordfish\n")
    with pytest.raises(SpecError, match="expected the name of a stream, found") as error:
        load_spec(name, tmp_path / "streams")
    assert "swordfish" not in str(error.value) and "password" not in str(error.value)
