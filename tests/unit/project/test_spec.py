"""A stream's YAML: what is accepted, and what it comes to."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateward.control.launchers.launch import driver_config, resolved_configuration
from stateward.project.project import Project
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import SpecError, StreamSpec, load_spec, load_specs
from stateward.project.spec_problems import YamlDocument, read_yaml
from stateward.project.spec_schema import SCHEMA_FILE, schema_text
from tests.support.small_spec import small_spec

STREAMS_FOLDER = CHECKOUT / "include" / "streams"
FRAUD = (STREAMS_FOLDER / "fraud_watch.yaml").read_text()


def test_every_shipped_spec_is_valid() -> None:
    specs, problems = load_specs()
    assert problems == []
    assert [spec.stream for spec in specs] == sorted(path.stem for path in STREAMS_FOLDER.glob("*.yaml"))


def test_durations_of_the_logic_become_milliseconds() -> None:
    spec = load_spec("user_sessions")
    assert spec.logic.config() == {
        "gap_ms": 1_800_000,
        "max_gap_ms": 86_400_000,
        "max_held_events": 10_000,
        "max_session_events": 100,
    }


def test_every_shipped_stream_has_a_class_of_its_settings() -> None:
    project = Project.of(Settings())
    assert [spec.stream for spec in load_specs()[0]] == project.streams()
    assert all(project.settings(stream) for stream in project.streams())


def test_the_shipped_settings_of_fraud_watch_are_the_defaults_of_its_model() -> None:
    spec = load_spec("fraud_watch")
    assert spec.logic == type(spec.logic)()
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


@pytest.mark.parametrize("stream", ["user_sessions", "event_windows"])
def test_only_a_stream_on_sparks_own_operators_refuses_a_second_topic(stream: str, tmp_path: Path) -> None:
    text = (STREAMS_FOLDER / f"{stream}.yaml").read_text()
    (tmp_path / f"{stream}.yaml").write_text(
        text.replace("topic: user_events", "topics: [user_events, more]")
    )
    if stream == "user_sessions":
        assert load_spec(stream, tmp_path).source.names == ("user_events", "more")
        return
    with pytest.raises(SpecError, match=r"event_windows, which is on Spark's own operators .*'more'"):
        load_spec(stream, tmp_path)


def test_a_topic_may_wait_longer_than_the_others(tmp_path: Path) -> None:
    event_time = {"allowed_lateness": "2m", "by_topic": {"b": "1h"}, "watermark_policy": "max"}
    spec = small_spec(tmp_path, source={"topics": ["a", "b"]}, event_time=event_time)
    config = driver_config(spec, Settings(), "r1")
    assert (config.lateness_by_topic_ms, config.watermark_policy) == ({"b": 3_600_000}, "max")
    assert spec.longest_timeout == timedelta(hours=2)
    with pytest.raises(SpecError, match=r"event_time\.by_topic to name topics of .*, of which c is"):
        small_spec(
            tmp_path, source={"topics": ["a", "b"]}, event_time={**event_time, "by_topic": {"c": "1h"}}
        )


def test_a_lookup_is_a_table_of_this_installation_or_a_uri(tmp_path: Path) -> None:
    lookups = {
        "users": {"table": "users"},
        "shops": {"table": "s3://b/shops", "key": "id", "columns": {"name": "title"}},
    }
    config = driver_config(small_spec(tmp_path, lookups=lookups), Settings(), "r1")
    users, shops = config.lookups["users"], config.lookups["shops"]
    assert (users.uri.endswith("/tables/users"), users.key, users.columns) == (True, "", {})
    assert (shops.uri, shops.key, shops.columns) == ("s3://b/shops", "id", {"name": "title"})


def test_a_stream_without_a_model_has_settings_of_any_name(tmp_path: Path) -> None:
    logic = {"horizon": "20m", "steps": 3, "strict": True, "mode": "fast", "ratio": 0.5}
    spec = small_spec(tmp_path, logic=logic)
    assert spec.logic.config() == {
        "horizon_ms": 1_200_000,
        "steps": 3,
        "strict": True,
        "mode": "fast",
        "ratio": 0.5,
        "max_held_events": 10_000,
    }
    assert spec.longest_timeout == timedelta(minutes=20)

    with pytest.raises(SpecError, match=r"logic\.steps: expected a duration, a number, text, true or false"):
        small_spec(tmp_path, logic={"steps": [1]})


def test_longest_timeout_covers_lateness_and_the_longest_duration() -> None:
    assert load_spec("user_sessions").longest_timeout == timedelta(hours=24, minutes=2)


def test_only_what_has_no_default_is_required(tmp_path: Path) -> None:
    spec = small_spec(tmp_path)
    assert (spec.trigger_interval, spec.lease.ttl) == (timedelta(seconds=1), timedelta(seconds=20))
    assert (spec.state.buckets, spec.state.cache) == (64, None)
    assert spec.logic.config() == {"max_held_events": 10_000}
    assert spec.quality is None


def test_a_stream_may_emit_on_arrival(tmp_path: Path) -> None:
    (tmp_path / "fraud_watch.yaml").write_text(FRAUD + "emission: eager\n")
    assert load_spec("fraud_watch", tmp_path).emission == "eager"


def test_a_stream_may_run_by_processing_time(tmp_path: Path) -> None:
    assert small_spec(tmp_path, clock="processing").clock == "processing"
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
def test_what_contradicts_the_clock_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        small_spec(tmp_path, **change)


def test_a_jitter_delays_the_end_of_the_last_key(tmp_path: Path) -> None:
    assert small_spec(tmp_path, timeout={"jitter": "90s"}).longest_timeout == timedelta(seconds=90)


def test_limits_of_the_state_have_defaults_and_an_order(tmp_path: Path) -> None:
    limits = load_spec("user_sessions").state.limits
    assert (limits.warn_bytes, limits.critical_bytes) == (10**9, 5 * 10**9)
    limits_in_yaml = {"warn_bytes": 2, "critical_bytes": 1}
    with pytest.raises(SpecError, match="expected warn_bytes to be at most critical_bytes, found 2 and 1"):
        small_spec(tmp_path, state={"limits": limits_in_yaml})


def test_a_shipped_yaml_says_only_what_differs_from_the_defaults() -> None:
    for spec in load_specs()[0]:
        document = yaml.safe_load((STREAMS_FOLDER / f"{spec.stream}.yaml").read_text())
        for name, value in document.items():
            required = StreamSpec.model_fields[name].is_required()
            assert required or getattr(spec, name) != StreamSpec.model_fields[name].default, (
                spec.stream,
                name,
            )
            for field in value if isinstance(value, dict) else ():
                part = type(getattr(spec, name)).model_fields[field]
                same = not part.is_required() and getattr(getattr(spec, name), field) == part.default
                assert not same, f"{spec.stream}.yaml: {name}.{field} is the default"


def test_the_fields_of_a_full_yaml_are_those_of_the_model_and_their_defaults() -> None:
    text = Path(__file__).with_name("every_field.yaml")
    document = read_yaml(text)
    assert isinstance(document, YamlDocument)
    spec = StreamSpec.model_validate(document.data)
    assert spec == load_spec("user_sessions")


def test_the_editors_schema_is_current() -> None:
    text = (STREAMS_FOLDER / SCHEMA_FILE).read_text()
    streams = [one["if"]["properties"]["stream"]["const"] for one in json.loads(text)["allOf"]]
    assert text == schema_text(streams), "run `python -m stateward.project.spec_schema`"
    assert set(streams) <= set(Project.of(Settings()).streams())


def test_a_state_is_exported_only_if_a_yaml_says_when(tmp_path: Path) -> None:
    assert small_spec(tmp_path).state_export is None
    found = small_spec(tmp_path, state_export={"schedule": "0 5 * * *"}).state_export
    assert found is not None and (found.schedule, found.keep) == ("0 5 * * *", 30)
    for section, message in (
        ({"schedule": "nightly"}, r"state_export\.schedule: expected a cron expression of five fields"),
        ({"keep": 3}, r"state_export\.schedule"),
        ({"schedule": "0 5 * * *", "keep": 0}, r"state_export\.keep: expected a number above 0"),
    ):
        with pytest.raises(SpecError, match=message):
            small_spec(tmp_path, state_export=section)


def test_savepoints_are_made_unless_a_yaml_says_otherwise(tmp_path: Path) -> None:
    found = small_spec(tmp_path).savepoints
    assert found is not None
    assert (found.keep, found.days, found.schedule) == (3, 7, None)
    assert small_spec(tmp_path, savepoints=None).savepoints is None
    # As release 0.2 had it.
    found = small_spec(tmp_path, savepoints={"schedule": "0 4 * * *", "keep": 5, "days": 2}).savepoints
    assert found is not None
    assert (found.keep, found.days, found.schedule) == (5, 2, "0 4 * * *")
    for section, problem in (
        ({"schedule": "daily"}, r"savepoints\.schedule: expected a cron expression of five fields"),
        ({"schedule": "0 4 * * *", "keep": 0}, r"savepoints\.keep: expected a number above 0"),
    ):
        with pytest.raises(SpecError, match=problem):
            small_spec(tmp_path, savepoints=section)


def test_a_state_is_cared_for_and_nothing_is_changed_without_a_person(tmp_path: Path) -> None:
    found = small_spec(tmp_path).state_care
    assert (found.policy, found.looks, found.schedule) == ("propose", 3, None)
    assert (found.window, found.limits.max_partitions) == (timedelta(hours=4), None)
    # YAML 1.1 reads `off` as false.
    for off in ("off", False):
        assert small_spec(tmp_path, state_care={"policy": off}).state_care.policy == "off"
    for section, problem in (
        ({"policy": True}, r"state_care\.policy: expected .*propose"),
        ({"policy": "now"}, r"state_care\.policy: expected .*propose"),
        ({"schedule": "nightly"}, r"state_care\.schedule: expected a cron expression of five fields"),
        ({"window": 4}, r"state_care\.window: expected a duration"),
        ({"looks": 0}, r"state_care\.looks: expected a number above 0"),
    ):
        with pytest.raises(SpecError, match=problem):
            small_spec(tmp_path, state_care=section)


def test_every_stream_is_reconciled_daily_unless_its_yaml_says_otherwise(tmp_path: Path) -> None:
    found = small_spec(tmp_path).reconciliation
    assert (found.schedule, found.days) == ("30 5 * * *", 1)
    found = small_spec(tmp_path, reconciliation={"schedule": None, "days": 7}).reconciliation
    assert (found.schedule, found.days) == (None, 7)
    for section, problem in (
        ({"schedule": "daily"}, r"reconciliation\.schedule: expected a cron expression of five fields"),
        ({"days": 0}, r"reconciliation\.days: expected a number above 0"),
    ):
        with pytest.raises(SpecError, match=problem):
            small_spec(tmp_path, reconciliation=section)


def test_rows_go_to_topics_of_their_own_where_a_yaml_says_so(tmp_path: Path) -> None:
    assert small_spec(tmp_path).kafka_sink is None
    assert "kafka_sink" not in resolved_configuration(small_spec(tmp_path), Settings(), "r")
    spec = small_spec(tmp_path, kafka_sink={"topics": {"rows": "out"}})
    assert resolved_configuration(spec, Settings(), "r")["kafka_sink"] == {"rows": "out"}
    for topics, message in (
        ({"others": "out"}, r"topics for some of tables \['rows', 'more'\], not for \['others'\]"),
        ({"rows": "t"}, r"a topic of its own for each table, none that the stream reads \(.*, t\)"),
        ({"rows": "stateward-ticks-small"}, "none that the stream reads"),
        ({"rows": "out", "more": "out"}, "a topic of its own for each table"),
        ({"rows": "o/t"}, r"kafka_sink\.topics\.rows: expected text of the form"),
        ({}, r"kafka_sink\.topics: expected at least one entry"),
    ):
        with pytest.raises(SpecError, match=message):
            small_spec(tmp_path, kafka_sink={"topics": topics}, tables=["rows", "more"])
