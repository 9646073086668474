"""`stateward.testing`, as the tests of a project use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from spark_jobs.user_sessions.model import SessionEvent
from stateward.project.project import Project
from stateward.runtime.api.config import Config
from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.api.record_fields import Field
from stateward.runtime.keyed.state_upgrade import UpgradeError
from stateward.testing import case_of, check_project, reads_states, tried
from stateward.testing.bucket_bench import BucketBench
from stateward.testing.fixtures import bucket_bench  # noqa: F401 - a fixture
from tests.support.streams.orders import EVENT_TYPES, FIRST, RELEASES, SECOND, STATE_TYPES, as_text, split

JOB = RELEASES["a field split"]
AMOUNTS = st.integers(0, 10**6).map(as_text)

test_states_of_version_1_are_read = reads_states(
    JOB, 1, STATE_TYPES[1], EVENT_TYPES[1], total=AMOUNTS, price=AMOUNTS
)
test_states_of_version_2_keep_their_total = reads_states(
    JOB,
    2,
    STATE_TYPES[2],
    EVENT_TYPES[2],
    to=lambda old: STATE_TYPES[3](old.first_ms, old.last_ms, old.orders, *split(old.total), old.coupons),
    total=AMOUNTS,
    price=AMOUNTS,
)


def test_a_step_that_does_not_fit_is_found() -> None:
    wrong = replace(JOB, state_steps=(FIRST, SECOND._replace(state=None)))
    test: Any = reads_states(wrong, 2, STATE_TYPES[2], EVENT_TYPES[2], total=AMOUNTS, price=AMOUNTS)
    # One example: Hypothesis would look for the smallest one for seconds.
    kept: KeyState[Any, Any] = KeyState(STATE_TYPES[2](1, 2, 3, "1.50", 0))
    with pytest.raises(UpgradeError, match="of version 2 to become one of version 3"):
        test.hypothesis.inner_test(kept, "customer")
    reads_v2: Any = reads_states(JOB, 2, STATE_TYPES[2], EVENT_TYPES[2], to=lambda old: old)
    with pytest.raises(AssertionError):
        reads_v2.hypothesis.inner_test(kept, "customer")


def test_a_failed_task_leaves_no_row(bucket_bench: Callable[..., BucketBench]) -> None:  # noqa: F811
    bench = bucket_bench("user_sessions")
    bench.batch(("u", SessionEvent("a", 100, "view", False, None)))
    bench.fail_task()
    bench.watermark(100_000)
    assert [row["event_count"] for row in bench.rows["sessions"]] == [1]


def test_events_become_rows_dead_letters_and_late_events() -> None:
    event = {"event_id": "a", "user_id": "u", "event_type": "view", "event_time": "2025-01-01T00:00:00Z"}
    found = tried("user_sessions", [event, b"[]", "no json", {**event, "event_id": "b", "user_id": 1}])
    assert [row["user_id"] for row in found.rows["sessions"]] == ["u"]
    reasons = [row["reason"] for row in found.rows["dead_letters"]]
    assert reasons == ["not_an_object", "malformed_json", "wrong_type"]


def test_a_table_without_rows_has_an_empty_list() -> None:
    found = tried("user_sessions", [])
    assert found.rows == {"sessions": [], "dead_letters": [], "late_events": []}


def test_values_of_a_closed_set_are_those_of_the_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Project.imported().declaration("user_sessions")

    def fields(config: Config) -> tuple[Field, ...]:
        closed = Field("event_type", "text", one_of=("view", "leave"))
        return tuple(closed if one.name == closed.name else one for one in job.fields(config))

    monkeypatch.setattr(Project, "declaration", lambda *_: replace(job, fields=fields))
    place = list(job.event_type._fields).index("event_type") - 2
    assert repr(case_of("user_sessions").values[place]) == repr(st.sampled_from(("view", "leave")))
    named = case_of("user_sessions", event_type=st.just("view")).values[place]
    assert repr(named) == repr(st.just("view"))


def test_a_stream_without_events_of_its_own_is_refused() -> None:
    with pytest.raises(TypeError, match="stream event_windows: expected a StreamJob, found a NativeJob"):
        case_of("event_windows")
    with pytest.raises(ValueError, match="some of activity, found kind"):
        case_of("user_activity", kind=st.just("login"))


def test_the_project_of_this_repository_is_right() -> None:
    check_project()


def test_a_wrong_suite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("streams", "quality"):
        (tmp_path / "include" / name).mkdir(parents=True)
    (tmp_path / "include" / "quality" / "sessions.yaml").write_text("table: sessions\nexpectatons: []\n")
    monkeypatch.setenv("STATEWARD_PROJECT", str(tmp_path))
    with pytest.raises(AssertionError, match=r"sessions\.yaml"):
        check_project()


@pytest.mark.parametrize(
    ("module", "of", "extra"),
    [
        ("hypothesis", "stateward.testing", "dev"),
        ("pytest", "stateward.testing", "dev"),
        ("pyspark", "stateward.testing.fixtures", "spark"),
        ("pandas", "stateward.testing.fixtures", "spark"),
    ],
)
def test_an_import_without_what_it_needs_names_the_extra(module: str, of: str, extra: str) -> None:
    assert f"pip install 'stateward[{extra}]'" in without(module, f"import {of}")


def test_any_cut_is_skipped_without_spark() -> None:
    program = "from stateward.testing import any_cut; any_cut('user_activity')()"
    found = without("pandas", program)
    assert "Skipped" in found and "pip install 'stateward[spark]'" in found


def without(module: str, program: str) -> str:
    """What a program that fails without a module says."""
    program = f"import sys; sys.modules[{module!r}] = None; {program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr
