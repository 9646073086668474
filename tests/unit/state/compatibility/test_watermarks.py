"""The watermarks of a stream that joins topics are part of what its checkpoint holds."""

from __future__ import annotations

from typing import Any

from stateward.runtime.api.config import parse_config
from stateward.state.compatibility.descriptor import describe
from stateward.state.compatibility.findings import Level
from stateward.state.compatibility.verdict import judge
from tests.support.streams.matches import JOB
from tests.unit.runtime.telemetry.test_documents import CONFIG

TABLES = {"matches": "file:///m", "matched_payments": "file:///p"}


def described(**changes: Any) -> dict[str, Any]:
    several = {name: value for name, value in CONFIG.items() if name != "topic"} | {"topics": ["p", "l"]}
    config = parse_config({**several, "tables": {**CONFIG["tables"], **TABLES}, **changes}, "test")
    return describe(JOB, config)


def test_the_policy_cannot_change_because_spark_keeps_the_one_of_the_checkpoint() -> None:
    found = judge(described(), described(watermark_policy="max"))
    (finding,) = [one for one in found.findings if one.what == "the policy of several watermarks"]
    assert (found.level, finding.before, finding.now) == (Level.INCOMPATIBLE, "min", "max")


def test_the_lateness_of_a_topic_may_change_and_is_that_of_an_input() -> None:
    before = described()
    assert before["watermarks"]["allowed_lateness_ms"] == {"payments": 120_000, "logins": 120_000}
    found = judge(before, described(lateness_by_topic_ms={"l": 5}))
    assert [one.what for one in found.findings] == ["the allowed lateness of logins (ms)"]
    assert found.level == Level.EVOLVES


def test_fields_of_all_inputs_are_described_and_only_the_shared_ones_are_required() -> None:
    fields = {field.name: field.required for field in JOB.fields(parse_config(CONFIG, "test"))}
    assert fields == {
        "event_id": True,
        "account_id": True,
        "cents": False,
        "event_time": True,
        "device": False,
    }
    assert described()["fields"]["device"] == "text"
