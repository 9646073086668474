"""Two commits side by side: which checkout a driver comes from, ratios of figures, and the table of goals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import report, run
from benchmarks.charts.goal_list import GOALS, Goal
from benchmarks.charts.goals import goals
from benchmarks.charts.pairs import Spread, pair, paired_table
from benchmarks.harness.checkouts import Checkout, CheckoutError, commit_of, other_checkout, this_checkout
from benchmarks.harness.measure import Entry
from benchmarks.harness.user_sessions import Stateward
from benchmarks.harness.workload import Workload
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import CHECKOUT, Launch

# It is about what the software is tested with.
pytestmark = ci_full

BEFORE = "stateward@aaaa1111"
LONG = Workload()
SHORT = Workload(events=400_000)


def turn(contestant: str, number: int, events_per_s: int = 100, **more: Any) -> dict[str, Any]:
    """A right result of `benchmarks.run`."""
    name, _, commit = contestant.partition("@")
    return {
        "series": "2",
        "run": number,
        "contestant": contestant,
        "commit": commit or "bbbb2222",
        "before": bool(commit),
        "durability": "none",
        "workload": LONG.as_json(),
        "cpus": 2,
        "load_before": 0.5,
        "expected": {"sessions": 10, "events": 1000, "checksum": "0"},
        "correct": True,
        "problem": "",
        "events_per_s": events_per_s,
        "cpu_s": 40.0,
        "consume_s": 1.0,
        "total_s": 20.0,
        "first_commit_s": 9.0 if name == "stateward" else None,
        "peak_rss_mib": 2000,
        **more,
    }


def line_of(text: str, what: str) -> list[str]:
    """Cells of a goal's line: goal, before, after, ratio, commits."""
    (row,) = [row for row in text.splitlines() if row.startswith(f"| {what}")]
    return [cell.strip() for cell in row.split("|")[3:-1]]


def test_ratios_are_those_of_medians_and_of_turns() -> None:
    before = [turn(BEFORE, number, rate) for number, rate in ((1, 100), (2, 200), (3, 400))]
    after = [turn("stateward", number, rate) for number, rate in ((1, 200), (2, 200), (3, 600))]
    found = pair(before, after, "events_per_s")
    assert found is not None
    assert (found.before, found.after) == (Spread(200, 100, 400), Spread(200, 200, 600))
    assert found.of_medians == 1.0
    assert found.paired == Spread(1.5, 1.0, 2.0)


def test_a_turn_counts_when_both_of_its_outputs_are_right() -> None:
    before = [turn(BEFORE, 1, 100, correct=False), turn(BEFORE, 2, 200)]
    after = [turn("stateward", 1, 900), turn("stateward", 2, 300), turn("stateward", 3, 900)]
    found = pair(before, after, "events_per_s")
    assert found is not None and found.paired == Spread(1.5, 1.5, 1.5)
    assert pair(before[:1], after, "events_per_s") is None


def test_a_series_of_two_commits_shows_their_ratios_and_how_to_run_it() -> None:
    series = [
        *(turn(BEFORE, number, 100 * number) for number in (1, 2)),
        *(turn("stateward", number, 150 * number) for number in (1, 2)),
        turn("flink_sql", 1),
    ]
    text = report.section(series, "")
    assert f"| {BEFORE} | events/s | 150 (100 to 200) | 225 (150 to 300) | 1.50 | 1.50 |" in text
    assert f"| {BEFORE} | s, launch to first commit | 9.0 | 9.0 | 1.00 | 1.00 |" in text
    assert "`bbbb2222` is *after*" in text
    assert "--runs 2 --only stateward,flink_sql --before FOLDER" in text
    assert paired_table([turn("stateward", 1)]) == []


def test_a_goal_is_measured_in_the_newest_series_with_enough_turns() -> None:
    results = [
        turn(BEFORE, 1, 60),
        turn("stateward", 1, 90),
        turn("flink_sql", 1, 120),
        *(turn(name, 1, 7, series="3", workload=SHORT.as_json()) for name in (BEFORE, "stateward")),
        turn("stateward", 1, 99, series="1"),
    ]
    text = goals({"run": results}, 1)
    assert line_of(text, "events/s over those of `flink_sql`,") == [
        "≥ 1",
        "0.50",
        "0.75",
        "1.50",
        "`aaaa1111` to `bbbb2222`",
        "1",
    ]
    of_rocksdb = line_of(text, "events/s over those of `flink_sql=rocksdb`, 2 M")
    assert of_rocksdb[1:4] == ["not measured", "not measured", ""]
    assert line_of(text, "launch to first commit")[1:4] == ["9.0", "9.0", "1.00"]
    assert line_of(text, "peak memory")[1] == "2.10"
    assert goals({"run": results}, 2) == ""


def test_a_goal_of_two_programs_is_measured_in_a_series_of_its_own_length() -> None:
    results = [
        turn("fraud_watch", 1, 30_000, series="1", workload=SHORT.as_json()),
        turn("fraud_watch@aaaa1111", 1, 20_000, series="1", workload=SHORT.as_json()),
        turn("pyflink_fraud", 1, 5_000, series="1", workload=SHORT.as_json()),
        turn("fraud_watch", 1, 90_000),
        turn("pyflink_fraud", 1, 9_000),
    ]
    what = "events/s of `fraud_watch` over those of `pyflink_fraud`, 400,000 records"
    assert line_of(goals({"run": results}, 1), what)[:4] == ["≥ 5", "4.0", "6.0", "1.50"]


def test_cpu_per_record_is_that_of_the_records_which_a_longer_series_has_more() -> None:
    results = [
        turn("stateward", 1, series="1", workload=SHORT.as_json(), cpu_s=30.0),
        turn("stateward", 1, series="2", cpu_s=62.0),
        turn(BEFORE, 1, series="2", cpu_s=70.0),
    ]
    assert line_of(goals({"run": results}, 1), "CPU µs per record")[1:4] == ["not measured", "20.0", ""]
    results.append(turn(BEFORE, 1, series="1", workload=SHORT.as_json(), cpu_s=30.0))
    assert line_of(goals({"run": results}, 1), "CPU µs per record")[1:4] == ["25.0", "20.0", "0.80"]
    other = [{**one, "commit": "cccc3333"} if one["series"] == "1" else one for one in results]
    assert line_of(goals({"run": other}, 1), "CPU µs per record")[1:3] == ["not measured"] * 2


def single(before: bool, **more: Any) -> dict[str, Any]:
    """A result of a program that measures one driver."""
    return {"commit": "aaaa1111" if before else "bbbb2222", "before": before, **more}


def test_single_drivers_of_a_commit_are_compared_in_the_same_settings() -> None:
    late = {"emission": "watermark", "rate": 40_000, "lateness_ms": 1000}
    large: dict[str, Any] = {
        "workload": Workload(keys=1_200_000).as_json(),
        "stream": "stateward",
        "conf": {},
    }
    large |= {"correct": True, "live_keys": 1_050_000, "longest_pause_s": 3.0}
    results = {
        "latency": [
            single(True, **late, p99_ms=5000),
            single(False, **late, p99_ms=9000),
            single(False, **late, p99_ms=3000),
            single(False, **late, p99_ms=4000),
            {**single(False, **late, p99_ms=1), "commit": "cccc3333"},
            single(False, **late, p99_ms=5000),
            single(False, **{**late, "rate": 5000}, p99_ms=100),
            {**late, "p99_ms": 1},
        ],
        "sustained": [
            single(True, **large, variant="batch_100000", events_per_s=50_000, seconds=40.5),
            single(True, **large, variant="", events_per_s=30_000),
            single(False, **large, variant="batch_100000", events_per_s=60_000, seconds=35.1),
        ],
        "idle": [single(True, partitions=2, core_percent=2.0, median_batch_ms=250)],
    }
    text = goals(results, 5)
    of_both = "`aaaa1111` to `bbbb2222`"
    assert line_of(text, "the same by watermark")[1:] == ["4.00", "3.50", "0.88", of_both, "1 and 4"]
    assert line_of(text, "events/s at 1 M keys")[1:4] == ["50,000", "60,000", "1.20"]
    assert line_of(text, "quiet stream")[1:] == ["2.0", "not measured", "", "`aaaa1111`", "1"]
    assert line_of(text, "memory of a quiet stream")[1:3] == ["not measured", "not measured"]
    assert line_of(text, "p99 from event to row")[1] == "not measured"


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.what)
def test_each_goal_has_a_sign_and_a_program_that_is_read(goal: Goal) -> None:
    assert goal.sign in ("≥", "≤", "<")
    assert (CHECKOUT / "benchmarks" / f"{goal.program}.py").is_file()
    assert goal.program in ("run", "sustained", "latency", "idle", "together", "recovery")


def test_a_checkout_of_another_commit_has_its_mark_in_results(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Checkout(Path("/other"), "aaaa1111", True, {})
    monkeypatch.setattr(run, "other_checkout", lambda _: other)
    options = run.parse(["--only", "flink_sql,stateward=c1,fraud_watch", "--before", "/other"])
    assert [entry.name for entry in options.entries] == [
        "flink_sql",
        "stateward=c1@aaaa1111",
        "stateward=c1",
        "fraud_watch@aaaa1111",
        "fraud_watch",
    ]
    assert Entry(Stateward(this_checkout())).name == "stateward"


@pytest.mark.parametrize(
    ("events", "only", "message"),
    [
        ("2000000", "stateward,bytewax", "bytewax does not leave out repeated events"),
        ("400000", "stateward", "expected --events 1000000 or more"),
    ],
)
def test_spoilt_records_are_for_who_leaves_them_out_and_for_long_topics(
    events: str, only: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run.parse(["--spoilt", "1", "--events", events, "--only", only])
    assert message in capsys.readouterr().err
    options = run.parse(["--spoilt", "1", "--partitions", "4", "--only", "stateward,flink_sql"])
    assert (options.workload.spoilt_percent, options.workload.partitions) == (1, 4)


def test_a_folder_that_cannot_start_drivers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckoutError, match=r"expected .*\.venv/bin/python, found nothing. Run `make setup`"):
        other_checkout(tmp_path)
    for needed in (".venv/bin/python", "jars/spark/x"):
        (tmp_path / needed).parent.mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    with pytest.raises(CheckoutError, match="expected a clone with a commit"):
        other_checkout(tmp_path)


def test_a_commit_is_marked_when_files_differ_from_it(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    assert commit_of(tmp_path) == ""
    (tmp_path / "file").write_text("1")
    git("init")
    git("add", "file")
    git("commit", "-m", "one")
    git("tag", "-a", "v1", "-m", "v1")
    commit = commit_of(tmp_path)
    assert len(commit) == 8 and int(commit, 16)
    (tmp_path / "file").write_text("2")
    assert commit_of(tmp_path) == f"{commit}-dirty"


def test_a_driver_of_another_checkout_has_all_from_there(tmp_path: Path) -> None:
    other = tmp_path / "other"
    spark = other / ".venv/lib/python3.11/site-packages/pyspark/bin"
    for folder in (spark, other / "jars/spark"):
        folder.mkdir(parents=True)
    (other / "jars/spark/delta.jar").touch()
    submit = spark / "spark-submit"
    submit.write_text(
        '#!/bin/sh\npwd\necho "$PYTHONPATH" "$PYSPARK_PYTHON" "$SPARK_HOME"\nprintf "%s\\n" "$@"\n'
    )
    submit.chmod(0o755)
    broker = cast(RunningBroker, _Address())
    launch = Launch(tmp_path, broker, "topic", driver_conf={"spark.own": "1"}, checkout=other)
    assert launch.start().wait(10) == 0
    started_in, environment, *command = launch.log("run-1").read_text().splitlines()
    # Python workers import from there before they look at `PYTHONPATH`.
    assert started_in == str(other)
    assert environment.split() == [str(other), str(other / ".venv/bin/python"), str(spark.parent)]
    assert command[command.index("--jars") + 1] == str(other / "jars/spark/delta.jar")
    assert str(other / "stateward/driver.py") in command
    assert "spark.own=1" in command and not any(str(CHECKOUT) in part for part in command)


class _Address:
    bootstrap = "localhost:1"
