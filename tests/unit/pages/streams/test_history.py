"""A stream's last day: what its drivers write, a line a minute, and how it is read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stateward.contract.process_identity import ProcessIdentity
from stateward.contract.stream_control import Failure
from stateward.pages.streams import history as stream_history
from stateward.pages.streams.history import Sample, samples_of
from stateward.project.layout import Layout
from stateward.runtime.driver.control import LaunchReason, reason_of_launch
from stateward.runtime.driver.history import History, history_uri
from stateward.runtime.lease.lease import LeaseLostError
from stateward.runtime.telemetry.status import StatusFile
from tests.support.waiting import PATIENCE_S, wait_until

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def status(state: str = "running", run_id: str = "r1", **fields: Any) -> dict[str, Any]:
    return {"stream": "s", "run_id": run_id, "state": state, "message": "", **fields}


def history(folder: Path, reason: LaunchReason = LaunchReason()) -> History:  # noqa: B008
    return History(f"file://{folder}/s.history.jsonl", reason=reason, may_write=lambda: None)


def written(folder: Path) -> tuple[Sample, ...]:
    file = folder / "s.history.jsonl"
    return samples_of(file.read_text()) if file.exists() else ()


def test_both_rooms_put_the_history_beside_the_status(tmp_path: Path) -> None:
    layout = Layout(home=tmp_path, data="s3://bucket/data")

    assert history_uri(layout.status_uri("s")) == layout.history_uri("s")


def test_a_line_a_minute_and_one_when_the_state_changes(tmp_path: Path) -> None:
    kept = history(tmp_path, LaunchReason("asked to run"))
    for second in range(0, 150):
        state = "waiting" if 90 <= second < 92 else "running"
        kept.note(status(state, lag_records=second), NOW + second * SECOND)
    kept.end(status("stopped", message="drained"), NOW + 151 * SECOND)

    lines = [(one.at - NOW, one.state, one.lag_records) for one in written(tmp_path)]
    assert lines == [
        (timedelta(0), "running", 0),
        (MINUTE, "running", 60),
        (90 * SECOND, "waiting", 90),
        # It waited for two seconds only; a broker that comes and goes must not fill the file.
        (95 * SECOND, "running", 95),
        (151 * SECOND, "stopped", None),
    ]
    assert [one.launched for one in written(tmp_path)] == ["asked to run", "", "", "", ""]


def test_the_next_driver_goes_on_with_the_last_day(tmp_path: Path) -> None:
    first = history(tmp_path)
    for hours in range(0, 30):
        first.note(status(batch_id=hours), NOW + timedelta(hours=hours))
    with (tmp_path / "s.history.jsonl").open("a") as file:
        file.write('half a line\n{"at": "yesterday"}\n["no object"]\n')
    crash = LaunchReason("crash: gone", Failure("killed", "gone", "SIGKILL"))
    history(tmp_path, crash).note(status(run_id="r2"), NOW + timedelta(hours=30))

    lines = written(tmp_path)
    assert [one.batch_id for one in lines[:-1]] == list(range(7, 30)), "24 hours are kept"
    assert (lines[-1].run_id, lines[-1].launched) == ("r2", "crash: gone")
    assert lines[-1].failure == Failure("killed", "gone", "SIGKILL")
    assert "half" not in (tmp_path / "s.history.jsonl").read_text()


def test_the_file_is_bounded_by_lines_too(tmp_path: Path) -> None:
    kept = history(tmp_path)
    at = (NOW - timedelta(hours=1)).isoformat()
    line = json.dumps({"at": at, "run_id": "r0", "state": "running"})
    (tmp_path / "s.history.jsonl").write_text(f"{line}\n" * 5000)
    kept.note(status(), NOW)

    assert len(written(tmp_path)) == 4000
    assert written(tmp_path)[-1].run_id == "r1"


def test_a_clock_that_was_set_back_does_not_silence_it(tmp_path: Path) -> None:
    kept = history(tmp_path)
    kept.note(status(), NOW)
    kept.note(status(), NOW - timedelta(hours=1))

    assert len(written(tmp_path)) == 2


def test_without_the_lease_nothing_is_written(tmp_path: Path) -> None:
    def lost() -> None:
        raise LeaseLostError("another driver has it")

    kept = History(f"file://{tmp_path}/s.history.jsonl", reason=LaunchReason(), may_write=lost)
    kept.note(status(), NOW)
    kept.end(status("failed"), NOW + MINUTE)

    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_is_away_is_tried_again_in_a_minute(tmp_path: Path) -> None:
    tries = []

    def away() -> None:
        tries.append(1)
        if len(tries) < 2:
            raise OSError("no route to host")

    kept = History(f"file://{tmp_path}/s.history.jsonl", reason=LaunchReason("asked to run"), may_write=away)
    for second in range(0, 62):
        kept.note(status(), NOW + second * SECOND)

    assert len(tries) == 2
    found = [(one.at - NOW, one.launched) for one in written(tmp_path)]
    assert found == [(timedelta(0), "asked to run"), (MINUTE, "")], (
        "what was missing comes with the next line"
    )


def test_the_heartbeat_gives_the_status_to_whoever_watches(tmp_path: Path) -> None:
    seen: list[tuple[dict[str, Any], datetime]] = []
    file = StatusFile(
        f"file://{tmp_path}/s.json",
        stream="s",
        run_id="r1",
        process=ProcessIdentity("h/b/n", 7, 1.5),
        python_pid=8,
        clock=lambda: NOW,
    )
    file.update(state="running", lag_records=3)
    file.start_heartbeat(lambda document, now: seen.append((document, now)))
    wait_until(lambda: seen, PATIENCE_S, "a heartbeat")
    file.stop_heartbeat()

    assert (seen[0][0]["lag_records"], seen[0][1]) == (3, NOW)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('{"run_id": "r1", "reason": "crash: gone"}', LaunchReason("crash: gone")),
        (
            '{"run_id": "r1", "reason": "why", "launch": {"run_id": "r1", "at": "2026-01-31T12:00:00Z",'
            ' "host": "h", "log": "l", "failure": {"kind": "gone", "cause": "x"}}}',
            LaunchReason("why", Failure("gone", "x")),
        ),
        ('{"run_id": "r1", "reason": "why", "launch": {"failure": null}}', LaunchReason("why")),
        ('{"run_id": "r1", "reason": "why", "launch": "now"}', LaunchReason("why")),
        ('{"run_id": "r2", "reason": "of another launch"}', LaunchReason()),
        ("{half a docum", LaunchReason()),
        (None, LaunchReason()),
    ],
)
def test_the_reason_of_a_launch(tmp_path: Path, document: str | None, reason: LaunchReason) -> None:
    if document is not None:
        (tmp_path / "c.json").write_text(document)

    assert reason_of_launch(f"file://{tmp_path}/c.json", "r1") == reason


@pytest.mark.parametrize(
    ("fields", "failure"),
    [
        ({"launched": "crash: driver failed: why"}, Failure("reported", "driver failed: why")),
        ({"launched": "asked to run"}, None),
        ({"launched": "crash: x", "failure": {"kind": "gone", "cause": "y"}}, Failure("gone", "y")),
    ],
    ids=["of the last release", "asked for", "of this one"],
)
def test_the_failure_before_a_launch(fields: dict[str, Any], failure: Failure | None) -> None:
    line = {"at": "2026-01-31T12:00:00Z", "run_id": "r1", "state": "starting", **fields}
    [sample] = samples_of(json.dumps(line))
    assert sample.failure == failure


def test_a_line_with_a_failure_that_cannot_be_read_is_left_out() -> None:
    line = {"at": "2026-01-31T12:00:00Z", "run_id": "r1", "state": "starting"}
    for failure in ({"kind": "gone"}, "gone", ["gone"]):
        assert samples_of(json.dumps({**line, "failure": failure})) == ()


def test_throughput_is_counted_between_lines() -> None:
    def sample(seconds: int, delivered: int | None) -> Sample:
        return Sample(NOW + seconds * SECOND, "r", "running", delivered=delivered)

    samples = [
        sample(0, 0),
        sample(60, 600),
        sample(62, 5000),  # a moment later: no burst
        sample(120, 5400),
        sample(180, None),
        sample(240, 100),  # another generation starts its count again
        sample(300, 700),
        sample(3000, 9000),  # after a long pause
    ]

    found = [((at - NOW).total_seconds(), value) for at, value in stream_history.throughput(samples)]
    assert found == [(60, 10), (120, 80), (300, 10)]


def test_a_line_of_the_release_before_says_how_many_offsets_were_consumed() -> None:
    line = '{{"at": "2026-01-01T00:0{}:00Z", "run_id": "r", "state": "running", "{}": {}}}'
    samples = samples_of(line.format(0, "consumed", 600) + "\n" + line.format(1, "delivered", 1200))

    assert [value for _, value in stream_history.throughput(samples)] == [10]


def test_figures_of_the_wrong_type_are_not_known() -> None:
    [sample] = samples_of(
        '{"at": "2026-01-01T00:00:00Z", "run_id": "r", "state": "running", "lag_records": "<b>",'
        ' "batch_id": true, "watermark": "2025-12-31T23:58:00Z"}'
    )

    assert (sample.lag_records, sample.batch_id) == (None, None)
    assert stream_history.watermark_delay([sample]) == ((sample.at, 120.0),)
    assert stream_history.lag([sample]) == ()
