"""`stateward traffic` against a real broker: what is in the topic, and what is written beside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from include.replay.records import TICK_KEY
from include.traffic.generate import Plan, Traffic
from include.traffic.profiles import PROFILES
from include.traffic.records import values_of
from tests.e2e.installation import STATEWARD
from tests.e2e.test_replay import read_all
from tests.kafka_broker import RunningBroker

pytestmark = pytest.mark.e2e

PLAN = Plan(PROFILES["daily"], seed=5, rate=30, minutes=1, topics=("payments",))
OPTIONS = ("--profile", "daily", "--seed", "5", "--rate", "30", "--minutes", "1", "--topic", "payments")


def traffic(broker: RunningBroker, home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "STATEWARD_HOME": str(home),
        "STATEWARD_KAFKA_BOOTSTRAP": broker.bootstrap,
        "COLUMNS": "200",
    }
    command = [STATEWARD, "traffic", *OPTIONS, *more]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_late_events_without_a_stream_are_refused_before_anything_is_sent(
    broker: RunningBroker, tmp_path: Path
) -> None:
    run = traffic(broker, tmp_path, "--late")
    assert run.returncode == 1
    assert "expected a running stream that reads payments, found none of fraud_watch" in run.stderr
    assert "Traceback" not in run.stderr


def test_both_phases_arrive_with_the_ticks_between_them(broker: RunningBroker, tmp_path: Path) -> None:
    # Stands for the driver, whose rows are tests/spark/test_traffic.py's: what counts here is the watermark.
    status = tmp_path / "data" / "status" / "fraud_watch.json"
    status.parent.mkdir(parents=True)
    status.write_text(json.dumps({"state": "running", "watermark": "2025-01-07T00:00:00.000Z"}))

    run = traffic(broker, tmp_path, "--late", "--out", str(tmp_path / "out"))
    assert run.returncode == 0, run.stderr
    made = Traffic(PLAN)
    first = [record for _, record in values_of(made.slices())]
    late = [record for _, record in values_of(made.late())]
    assert run.stdout.splitlines()[-1].startswith(f"sent {len(first) + len(late)} records in ")

    found = read_all(broker, "payments")
    before: Counter[tuple[bytes | None, bytes]] = Counter()
    after: Counter[tuple[bytes | None, bytes]] = Counter()
    for records in found.values():
        tick = [key for key, _ in records].index(TICK_KEY)
        assert json.loads(records[tick][1])["tick"].startswith("2025-01-07T01:")
        before.update(records[:tick])
        after.update(records[tick + 1 :])
    assert before == Counter((record.key, record.value or b"") for record in first)
    assert after == Counter((record.key, record.value or b"") for record in late)

    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["streams"]["fraud_watch"]["tick_records"] == len(found) == 3
    assert manifest["streams"]["fraud_watch"]["late"] == len(late) > 0
    alerts = (tmp_path / "out" / "expected" / "fraud_watch" / "fraud_alerts.jsonl").read_text().splitlines()
    assert len(alerts) == manifest["streams"]["fraud_watch"]["rows"]["fraud_alerts"] > 0
