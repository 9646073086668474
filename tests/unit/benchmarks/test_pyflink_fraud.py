"""The peer of `fraud_watch`: its function without Flink, and how its program is started and read."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from unittest.mock import MagicMock, patch

import pytest

from benchmarks import run
from benchmarks.harness import contestants
from benchmarks.harness.contestants import Peer
from benchmarks.harness.fraud_watch import LOGIC, PYFLINK_FRAUD, fraud_answer, fraud_row
from benchmarks.harness.measure import task_of
from benchmarks.harness.oracle import answer_of
from benchmarks.harness.workload import LATENESS_MS, Workload, end_ms, generate, payment
from benchmarks.peers.task import Task
from tests.support.full import ci_full
from tests.support.spark.launches import CHECKOUT

# It is about what the software is tested with.
pytestmark = ci_full

SMALL = Workload(events=4_000, keys=150)
END_OF_TIME = 2**63 - 1
STUBS = (
    "pyflink",
    "pyflink.common",
    "pyflink.datastream",
    "pyflink.datastream.connectors",
    "pyflink.datastream.connectors.file_system",
    "pyflink.datastream.functions",
    "pyflink.datastream.state",
    "pyflink.table",
)
PROGRAM = """
import json
from benchmarks.peers.task import Task
task = Task.from_arguments()
task.output.mkdir()
rows = [
    {"alert_id": "a", "account_id": "u00000001", "raised_ms": 7, "transaction_count": 5},
    {"account_id": "u00000001", "opened_ms": 1, "closed_ms": 9, "transaction_count": task.logic["idle_ms"]},
]
(task.output / "part").write_text("".join(json.dumps(row) + "\\n" for row in rows))
task.finish(5.0)
"""


def a_task(folder: Path) -> Task:
    return task_of(SMALL, end_ms(generate(SMALL)), folder, "localhost:1", "")


class Flink:
    """What Flink gives a function: state of the key, pickled, timers by event time, and a watermark."""

    def __init__(self, task: Task) -> None:
        # PyFlink is not installed here, and the function needs no more of it than a class to inherit from.
        stubs = {name: MagicMock(KeyedProcessFunction=object) for name in STUBS}
        with patch.dict(sys.modules, stubs):
            module = importlib.import_module("benchmarks.peers.pyflink_fraud")
        self.states: dict[str, bytes] = {}
        self.timers: set[tuple[int, str]] = set()
        self.registered = 0
        self.lines: list[str] = []
        self.watermark_ms = -(2**63)
        self.key, self.at_ms = "", 0
        self.function = module.Accounts(replace(task, logic=LOGIC))
        self.function.open(self)

    def get_state(self, descriptor: Any) -> Self:
        return self

    def value(self) -> Any:
        return pickle.loads(self.states[self.key]) if self.key in self.states else None

    def update(self, value: Any) -> None:
        self.states[self.key] = pickle.dumps(value)

    def clear(self) -> None:
        self.states.pop(self.key, None)

    def get_current_key(self) -> str:
        return self.key

    def timestamp(self) -> int:
        return self.at_ms

    def timer_service(self) -> Self:
        return self

    def current_watermark(self) -> int:
        return self.watermark_ms

    def register_event_time_timer(self, at_ms: int) -> None:
        self.registered += 1
        self.timers.add((at_ms, self.key))

    def take(self, account: int, at_ms: int, values: Sequence[Any]) -> None:
        """Process one record."""
        self.key, self.at_ms = f"u{account:08d}", at_ms
        self.lines += self.function.process_element([self.key, *values], self)

    def pass_on(self, watermark_ms: int) -> None:
        """Let the watermark come, and its timers fire."""
        self.watermark_ms = watermark_ms
        while due := sorted(timer for timer in self.timers if timer[0] <= watermark_ms):
            self.timers.remove(due[0])
            self.at_ms, self.key = due[0]
            self.lines += self.function.on_timer(self.at_ms, self)


@pytest.mark.parametrize("between", [1, 50, 4_000], ids=lambda records: f"a watermark per {records}")
@pytest.mark.parametrize("is_repeated", [False, True], ids=["once", "twice"])
def test_the_peer_finds_what_the_logic_finds_by_itself(
    tmp_path: Path, between: int, is_repeated: bool
) -> None:
    events, flink, newest_ms = generate(SMALL), Flink(a_task(tmp_path)), 0
    for number, (account, at_ms) in enumerate(
        zip(events.users.tolist(), events.times_ms.tolist(), strict=True)
    ):
        kind, amount = payment(number)
        for _ in range(1 + is_repeated):
            flink.take(account, at_ms, [f"e{number:010d}", kind, float(amount), None])
        newest_ms = max(newest_ms, at_ms)
        if number % between == between - 1:
            flink.pass_on(newest_ms - LATENESS_MS)
    flink.pass_on(END_OF_TIME)

    expected = fraud_answer(events)
    assert answer_of(fraud_row(json.loads(line)) for line in flink.lines) == expected
    assert expected.sessions > 300 and expected.events > 0
    assert not flink.states and not flink.timers
    assert flink.registered < SMALL.events / 2


def test_an_event_at_flinks_watermark_is_late_and_one_after_it_is_not(tmp_path: Path) -> None:
    flink = Flink(a_task(tmp_path))
    flink.pass_on(99)
    flink.take(1, 99, ["e1", "transaction", 1.0])
    flink.take(1, 100, ["e2", "transaction", None])
    flink.pass_on(END_OF_TIME)
    (summary,) = map(json.loads, flink.lines)
    assert (summary["opened_ms"], summary["closed_ms"]) == (100, 100 + LOGIC["idle_ms"])
    assert (summary["transaction_count"], summary["amount"]) == (1, 0.0)


def test_both_are_checked_with_the_same_answer_beside_the_sessions() -> None:
    options = run.parse(["--events", "1000", "--keys", "50", "--only", "pyflink,pyflink_fraud,fraud_watch"])
    events = generate(options.workload)
    answers = run._answers(options, events)
    assert answers["pyflink_fraud"] == answers["fraud_watch"] == fraud_answer(events)
    assert answers["pyflink"] != answers["fraud_watch"]


def test_the_program_gets_the_logic_of_the_stream_and_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contestants, "find_java", lambda: "/none")
    (tmp_path / "program.py").write_text(PROGRAM)
    peer = Peer("peer", str(tmp_path / "program.py"), "none", "none", logic=LOGIC, row_of=fraud_row)
    task = a_task(tmp_path)
    assert peer.prepare(tmp_path) == []
    process = peer.start(task)
    assert process.wait(30) == 0, contestants.log_tail(task)
    assert peer.committed_at(task, process) == 5.0
    assert list(peer.rows(task)) == [("u00000001", 7, 7, 0), ("u00000001", 1, 9, LOGIC["idle_ms"])]


def test_what_the_program_imports_of_the_project_needs_no_package() -> None:
    program = (CHECKOUT / "benchmarks" / "peers" / PYFLINK_FRAUD.program).read_text()
    ours = [line for line in program.splitlines() if line.startswith(("from spark_jobs.", "from stateward."))]
    assert len(ours) > 3
    code = "\n".join([f"import sys; sys.path.insert(0, {str(CHECKOUT)!r})", *ours])
    # Without the site's packages.
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
