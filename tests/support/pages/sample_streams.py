"""Streams as an operator may find them, written as their drivers and the control plane write them.

For tests of the operator's page, and for looking at it without a platform:

    python -m tests.support.pages.sample_streams FOLDER PORT [healthy|lagging|failed]
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from stateward.contract.reading import as_json, format_time
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Failure, Hold, Launch
from stateward.control.reconcile.observe import supervisor_uri
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.runtime.driver.control import LaunchReason
from stateward.runtime.driver.history import line_of

HOST = "worker-1/4f6c9a52-8d1e-4f8e-9d6e-0f2a51c7b3aa/pid:[4026531836]"
DISK = (
    "org.apache.spark.SparkException: [CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store"
    " files for provider RocksDBStateStoreProvider: No space left on device (in StreamingQueryException: Job"
    " aborted due to stage failure)"
)
FULL = Failure("reported", f"driver failed: {DISK}")
KILLED = Failure("gone", "driver process gone (last reported running, batch 2127)")
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Sample:
    """What a stream looked like at one time; a `run_id` of its own for each launch."""

    at: datetime
    run_id: str
    state: str = "running"
    launched: str = ""
    failure: Failure | None = None
    message: str = ""
    lag: int = 0
    per_minute: int = 60_000
    delay: timedelta = timedelta(seconds=125)
    state_bytes: int = 42_000_000


@dataclass
class Written:
    """One installation with the documents of some streams."""

    settings: Settings
    now: datetime

    def stream(
        self,
        stream: str,
        samples: list[Sample],
        *,
        restarts: tuple[datetime, ...] = (),
        reason: str = "asked to run",
        failure: Failure | None = None,
        hold: Hold | None = None,
        health: dict[str, Any] | None = None,
        supervised: bool = True,
    ) -> None:
        """Write everything about one stream."""
        layout, last = Layout.of(self.settings), samples[-1]
        self._yaml(stream, health or {})
        delivered, lines = 0, []
        for number, sample in enumerate(samples):
            delivered += sample.per_minute
            document = _status(stream, sample, number, delivered)
            lines.append(line_of(document, sample.at, _reason(sample)))
        write_json(layout.status_uri(stream), document)
        Path(layout.history_uri(stream).removeprefix("file://")).write_text("\n".join(lines))
        launch = Launch(last.run_id, last.at - 5 * MINUTE, HOST, "driver.log", 4242, 1.0, failure)
        control = Control(
            stream,
            "running",
            "next" if hold else last.run_id,
            samples[0].at,
            f"dag run manual__{samples[0].at:%Y-%m-%dT%H:%M:%S}+00:00",
            failure.reason_of_launch if failure else reason,
            launch,
            restarts,
            hold=hold,
        )
        write_json(layout.control_uri(stream), as_json(control))
        if supervised:
            heartbeat = {"version": 1, "stream": stream, "dag_run": "d/r", "at": format_time(self.now)}
            write_json(supervisor_uri(layout, stream), heartbeat)

    def reports(self, stream: str, suite: str) -> None:
        """Write an empty page of a state operation and one of Data Docs."""
        layout = Layout.of(self.settings)
        for uri in (
            layout.operation_uri(stream, f"{self.now:%Y%m%dT%H%M%SZ}-inspect") + "/index.html",
            f"{layout.data_docs_uri}/validations/{suite}/{stream}_v1-7_manual__1/{self.now:%Y%m%dT%H%M%S}Z/{suite}.html",
        ):
            page = Path(uri.removeprefix("file://"))
            page.parent.mkdir(parents=True)
            page.write_text("<h1>a report</h1>")

    def _yaml(self, stream: str, health: dict[str, Any]) -> None:
        shipped = Path(__file__).resolve().parents[3] / "include" / "streams" / f"{stream}.yaml"
        spec = yaml.safe_load(shipped.read_text())
        spec.setdefault("health", {}).update(health)
        self.settings.streams.mkdir(parents=True, exist_ok=True)
        (self.settings.streams / f"{stream}.yaml").write_text(yaml.safe_dump(spec))


def installation(home: Path, now: datetime) -> Written:
    """An installation without streams in an empty folder."""
    settings = Settings(home=home, data=f"file://{home}/data", streams=home / "streams")
    settings.streams.mkdir(parents=True, exist_ok=True)
    return Written(settings, now)


def write(written: Written, what: str) -> None:
    """Write the streams of one of three days: `healthy`, `lagging` or `failed`."""
    now = written.now
    written.stream("user_sessions", list(_busy(now, seed=1)))
    written.reports("user_sessions", "sessions")
    if what == "healthy":
        written.stream("device_lifecycle", list(_upgraded(now)))
        written.reports("device_lifecycle", "device_alerts")
        written.stream(
            "event_windows",
            [*_busy(now - 4 * MINUTE, seed=3), Sample(now - 3 * MINUTE, "a", "stopped", message="drained")],
            hold=Hold("state_operations/manual__2026-02-03T14:26:41+00:00", "repartition", now - 4 * MINUTE),
        )
    if what == "lagging":
        written.stream("fraud_watch", list(_lagging(now)), health={"limits": {"lag": {"warn": 250_000}}})
        written.reports("fraud_watch", "fraud_alerts")
    if what == "failed":
        samples = list(_failing(now))
        restarts = tuple(sample.at - timedelta(seconds=9) for sample in samples if sample.failure)
        written.stream("payment_auth_join", samples, restarts=restarts, failure=FULL)
        written.reports("payment_auth_join", "payment_authentications")


def _reason(sample: Sample) -> LaunchReason:
    failure = sample.failure
    return LaunchReason(failure.reason_of_launch if failure else sample.launched, failure)


def _busy(now: datetime, seed: int, minutes: int = 360, run_id: str = "a") -> Iterator[Sample]:
    chance = random.Random(seed)
    for minute in range(minutes, -1, -1):
        swing = 1 + 0.35 * math.sin(minute / 55 + seed) + chance.uniform(-0.06, 0.06)
        yield Sample(
            now - minute * MINUTE,
            run_id,
            lag=int(chance.expovariate(1 / 300)),
            per_minute=int(52_000 * seed * swing),
            delay=timedelta(seconds=122 + chance.uniform(0, 6)),
            state_bytes=int(38_000_000 * seed * (1 + 0.2 * swing)),
        )


def _upgraded(now: datetime) -> Iterator[Sample]:
    """Restarted by a person in the middle of the day."""
    for sample in _busy(now, seed=2):
        before = sample.at < now - 95 * MINUTE
        first = sample.at == now - 92 * MINUTE
        if before:
            yield sample
        elif sample.at == now - 95 * MINUTE:
            yield Sample(sample.at, "a", "stopped", message="drained: run b is to take over")
        elif sample.at >= now - 92 * MINUTE:
            yield Sample(
                sample.at,
                "b",
                launched="asked to restart" if first else "",
                lag=sample.lag,
                per_minute=sample.per_minute,
                delay=sample.delay,
                state_bytes=sample.state_bytes,
            )


def _lagging(now: datetime) -> Iterator[Sample]:
    """Four times the events since an hour and a half, more than it can take; Kafka was away before."""
    lag = 0
    for sample in _busy(now, seed=2):
        minute = (now - sample.at) // MINUTE
        away = 228 <= minute <= 236
        came = sample.per_minute * (4 if minute < 90 else 1)
        done = 0 if away else min(lag + came, 260_000)
        lag += came - done
        yield Sample(
            sample.at,
            "a",
            "waiting" if away else "running",
            message="Kafka at 10.2.0.7:9092 does not answer: Local: Timed out" if away else "",
            lag=lag,
            per_minute=done,
            delay=timedelta(seconds=125 + lag / 4000),
            state_bytes=sample.state_bytes + lag * 40,
        )


def _failing(now: datetime) -> Iterator[Sample]:
    """Killed once for lack of memory, and then out of disk: five restarts, and no intervention."""
    grown = 0
    for sample in _busy(now, seed=2):
        minute = (now - sample.at) // MINUTE
        if minute < 13:
            break
        if minute in range(201, 206):
            continue
        grown += 1_400_000
        yield Sample(
            sample.at,
            "a" if minute > 205 else "b",
            failure=KILLED if minute == 200 else None,
            lag=sample.lag,
            per_minute=sample.per_minute,
            delay=sample.delay,
            state_bytes=200_000_000 + grown,
        )
    for number, seconds in enumerate((0, 40, 95, 190, 330, 490)):
        at = now - 12 * MINUTE + timedelta(seconds=seconds)
        if number:
            yield Sample(at, f"c{number}", failure=FULL, lag=40_000 * number, state_bytes=690_000_000)
        yield Sample(
            at + timedelta(seconds=20),
            f"c{number}" if number else "b",
            "failed",
            message=DISK,
            lag=40_000 * number,
            per_minute=0,
            delay=timedelta(seconds=125 + seconds),
            state_bytes=690_000_000,
        )


def _status(stream: str, sample: Sample, batch: int, delivered: int) -> dict[str, Any]:
    dead, late = delivered // 90_000, delivered // 7_000
    return {
        "version": 1,
        "stream": stream,
        "run_id": sample.run_id,
        "state": sample.state,
        "message": sample.message,
        "epoch": 3,
        "generation": 1,
        "host": HOST,
        "pid": 4242,
        "started_at": format_time(sample.at - 5 * MINUTE),
        "updated_at": format_time(sample.at),
        "batch_id": batch * 19,
        "last_batch_at": format_time(sample.at - timedelta(seconds=2)),
        "batch_duration_ms": 1240,
        "watermark": format_time(sample.at - sample.delay),
        "caught_up": sample.lag == 0,
        "lag_records": sample.lag,
        "state_rows": sample.state_bytes // 420,
        "state_bytes": sample.state_bytes,
        "state_keys": sample.state_bytes // 900,
        "delivered": delivered,
        "accepted": delivered - dead - late,
        "dead": dead,
        "late": late,
        "duplicates": 0,
        "rows_out": delivered // 11,
        "operators": [
            {
                "name": "transformWithStateInPySparkExec",
                "rows": sample.state_bytes // 420,
                "updated": 128,
                "removed": 64,
                "memory_bytes": sample.state_bytes,
                "file_bytes": sample.state_bytes // 2,
                "commit_ms": 85.5,
                "cache_hits": 995,
                "cache_misses": 5,
            }
        ],
    }


def serve(home: Path, port: int, what: str) -> None:
    """Serve the page at `/stateward/streams/index.html` without a login."""
    import os

    import uvicorn
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import FastAPI

    from stateward.airflow.web.streams_app import create_app
    from stateward.rendering.page_address import STREAMS

    write(installation(home, datetime.now(UTC)), what)
    os.environ |= {"STATEWARD_HOME": str(home), "STATEWARD_STREAMS": str(home / "streams")}
    app = create_app()
    app.dependency_overrides[get_user] = lambda: None
    outer = FastAPI()
    outer.mount(STREAMS, app)
    uvicorn.run(outer, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
