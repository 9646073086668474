"""The demo's steps: replay, deploy through Airflow, wait for the stream, wait for its validation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from proof.demo.results import QualityVerdict, read_quality, table_version
from stateward.cli.streams.airflow_api import AirflowApi
from stateward.contract.process_output import READY, Report
from stateward.contract.storage import read_json
from stateward.platform.secrets import ADMIN, Secrets
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import StreamSpec, load_spec

STREAM = "user_sessions"
EVENTS = CHECKOUT / "data" / "web_events.jsonl.gz"
_POLL_S = 0.5
_DAG_TIMEOUT_S = 90.0
_STREAM_TIMEOUT_S = 300.0
_QUALITY_TIMEOUT_S = 240.0

T = TypeVar("T")


class DemoError(RuntimeError):
    """A step of the demo did not finish."""


@dataclass(frozen=True)
class Replayed:
    """What the replay sent.

    Attributes:
        sent: records, without ticks.
        tick: event time of the tick behind them.
    """

    sent: int
    tick: datetime


class BackgroundReplay:
    """The replay, in parallel to the start of Airflow: Kafka is ready long before."""

    def __init__(self, settings: Settings, topic: str, partitions: int, report: Report) -> None:
        self._settings = settings
        self._topic = topic
        self._partitions = partitions
        self._report = report
        self._result: Replayed | None = None
        self._error: Exception | None = None
        # A daemon, so that an interrupted demo does not wait for it.
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def result(self) -> Replayed:
        """Wait for the last acknowledgement.

        Raises:
            Exception: what stopped the replay.
        """
        while self._thread.is_alive():
            # In slices, so that signals are handled.
            self._thread.join(0.5)
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        from stateward.cli.replay import replay_file

        self._report("replay", f"{EVENTS.name} to {self._topic}")
        try:
            outcome, tick = replay_file(
                str(EVENTS),
                topic=self._topic,
                settings=self._settings,
                tick=True,
                partitions=self._partitions,
            )
            assert tick is not None
            self._result = Replayed(outcome.sent, tick)
            self._report("replay", READY)
        except Exception as error:
            self._error = error


class Scenario:
    """The demo on a running platform.

    Args:
        settings: the demo's own installation.
        report: shows progress.
    """

    def __init__(self, settings: Settings, report: Report) -> None:
        self._settings = settings
        self._layout = Layout.of(settings)
        self._report = report
        self.spec: StreamSpec = load_spec(STREAM, settings.streams)
        self.replay = BackgroundReplay(
            settings, self.spec.source.names[0], self.spec.source.topic_partitions, report
        )

    def on_part(self, part: str, what: str) -> None:
        """Report the platform's progress, and start the replay as soon as Kafka answers."""
        self._report(part, what)
        if (part, what) == ("kafka", READY):
            self.replay.start()

    def play(self) -> QualityVerdict:
        """Deploy the stream, and return the verdict on its output.

        Raises:
            DemoError: a step failed or took too long.
        """
        password = Secrets.load_or_create(self._layout.airflow_home).admin_password
        with AirflowApi(self._settings.airflow_internal_url, ADMIN, password) as api:
            run_id = self._deploy(api)
            replayed = self.replay.result()
            self._wait_for_stream(api, run_id, replayed)
            return self._wait_for_quality(api)

    def _deploy(self, api: AirflowApi) -> str:
        stream_dag = f"stream_{STREAM}"
        self._report("deploy", f"waiting for the DAG {stream_dag}")
        self._wait_for_dag(api, stream_dag)
        api.unpause(stream_dag)
        run_id = api.trigger(stream_dag, {"action": "run"})
        self._report("deploy", f"triggered {stream_dag}, {run_id}")
        self._report("deploy", READY)
        return run_id

    def _wait_for_dag(self, api: AirflowApi, dag: str) -> None:
        _poll(
            lambda: api.has_dag(dag),
            _DAG_TIMEOUT_S,
            lambda: f"Airflow does not know the DAG {dag}; import errors: {api.import_errors()}",
        )

    def _wait_for_stream(self, api: AirflowApi, run_id: str, replayed: Replayed) -> None:
        """Wait until all records and the tick are processed, so that every session is closed and written."""
        passed = replayed.tick - self.spec.event_time.allowed_lateness

        def done() -> bool:
            if api.run_state(f"stream_{STREAM}", run_id) == "failed":
                raise DemoError(f"the DAG run {run_id} of stream_{STREAM} failed; {self._driver_says()}")
            status = self._status()
            self._report("stream", _in_words(status, replayed.sent))
            watermark = status.get("watermark")
            return (
                bool(status.get("caught_up"))
                and int(status.get("delivered") or 0) >= replayed.sent
                and watermark is not None
                and datetime.fromisoformat(watermark) >= passed
            )

        _poll(done, _STREAM_TIMEOUT_S, lambda: f"the stream has not caught up; {self._driver_says()}")
        self._report("stream", READY)

    def _wait_for_quality(self, api: AirflowApi) -> QualityVerdict:
        quality = self.spec.quality
        assert quality is not None
        # It comes when the stream was started.
        self._wait_for_dag(api, f"quality_{STREAM}")
        api.unpause(f"quality_{STREAM}")
        [table] = quality.tables
        version = table_version(self._layout.table_uri(table))
        if version is None:
            raise DemoError(f"the stream has caught up and there is no table {table}")
        self._report("quality", f"validating {table}, version {version}")
        verdict = _poll(
            lambda: read_quality(self._layout, STREAM, table, version),
            _QUALITY_TIMEOUT_S,
            lambda: (
                f"no validation of {table} at version {version} or later; runs of quality_{STREAM}: "
                f"{list(api.runs(f'quality_{STREAM}').values())}"
            ),
        )
        self._report("quality", READY)
        return verdict

    def _status(self) -> dict[str, Any]:
        return read_json(self._layout.status_uri(STREAM)) or {}

    def _driver_says(self) -> str:
        from stateward.cli.logs import newest_driver_log

        log = newest_driver_log(self._layout, STREAM)
        tail = log.read_text(errors="replace")[-3000:] if log else "(no driver was started)"
        return f"status: {self._status()}; the driver's log, {log}, ends:\n{tail}"


def _in_words(status: dict[str, Any], sent: int) -> str:
    if not status:
        return "starting the driver"
    watermark = (status.get("watermark") or "")[:16].replace("T", " ")
    return f"{status.get('state')}, {status.get('delivered') or 0} of {sent} records" + (
        f", watermark {watermark}" if watermark else ""
    )


def _poll(condition: Callable[[], T | None], timeout_s: float, problem: Callable[[], str]) -> T:
    deadline = time.monotonic() + timeout_s
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise DemoError(f"after {timeout_s:g} s: {problem()}")
        time.sleep(_POLL_S)
