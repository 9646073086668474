"""A `deploy` that gives up tells people of it, as a supervisor does: once, and once more when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateward.airflow.compat import AirflowFailException
from stateward.airflow.notifiers.dispatcher import Dispatcher
from stateward.airflow.operators import deploy_stream
from stateward.airflow.operators.deploy_stream import DeployStreamOperator
from stateward.alerts.incident import Observation
from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Launch
from stateward.contract.stream_status import Status
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import Action, GiveUp, Healthy, Observed
from stateward.control.reconcile.leader_heartbeat import renew
from stateward.control.reconcile.observe import read_supervisor
from stateward.control.reconcile.watch_clock import WatchClock
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.airflow.conftest import make_due, sent_messages

pytestmark = pytest.mark.airflow

GAVE_UP = GiveUp("driver failed: no such option; restarted 5 times within 900 s without lasting success")


@dataclass
class Controlled:
    """STAND-IN for a controller: its driver keeps failing."""

    settings: Settings
    asked: list[str] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        return Layout.of(self.settings)

    def start_afresh(self, by: str) -> None:
        self.asked.append(by)

    def request(self, wish: Any) -> None:
        self.asked.append(wish.by)

    def reconcile(self, clock: WatchClock | None = None) -> Action:
        return GAVE_UP


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """With the file `messages` as the receiver, and a stream `s` whose driver keeps failing."""
    made = Settings(home=tmp_path, notifiers=tmp_path / "notifiers.yaml", resolve_after_s=0)
    listen(made, "stateward.airflow.notifiers.json_lines.JsonLinesNotifier")
    monkeypatch.setattr(deploy_stream, "controller_of", lambda stream, current_spec: Controlled(made))
    write_json(Layout.of(made).control_uri("s"), as_json(control()))
    return made


def listen(settings: Settings, notifier: str) -> None:
    settings.notifiers.write_text(
        f"- class: {notifier}\n  name: all\n"
        + (f"  kwargs: {{path: {settings.home}/messages}}\n" if "JsonLines" in notifier else "")
    )


def control() -> Control:
    now = datetime.now(UTC)
    launch = Launch("r1", now, "here", "/nowhere/driver.log")
    return Control("s", "running", "r1", now, "someone", "asked to run", launch=launch, failures=5)


def deploy(run_id: str) -> None:
    run = SimpleNamespace(dag_id="stream_s", run_id=run_id, triggering_user_name="ann")
    context: Any = {"params": {"action": "run", "reason": None}, "dag_run": run}
    with pytest.raises(AirflowFailException, match="no such option"):
        DeployStreamOperator(task_id="deploy", stream="s", poll_s=0.01).execute(context)


def test_it_is_sent_once_and_a_later_run_that_succeeds_resolves_it(settings: Settings) -> None:
    deploy("manual__1")
    deploy("manual__2")
    (opened,) = sent_messages(settings.home)
    assert (opened["event"], opened["topic"], opened["gave_up"]) == ("opened", "driver", True)
    assert opened["cause"].startswith("Driver failed: no such option; restarted 5 times")
    assert opened["links"]["dag_run"].endswith("/dags/stream_s/runs/manual__1")
    assert read_supervisor(Layout.of(settings), "s") is None, "it stays the supervisor"

    now = datetime.now(UTC)
    status = Status("s", "r1", "running", now, now, last_batch_at=now, caught_up=True)
    seen = Observed(control(), status, Presence.ALIVE)
    Dispatcher("s", "stream_s/manual__3", {}, settings).attend(
        Observation("s", Healthy("running"), seen, now)
    )
    assert [one["event"] for one in sent_messages(settings.home)] == ["opened", "resolved"]
    assert sent_messages(settings.home)[1]["id"] == opened["id"]


def test_where_another_run_supervises_that_one_tells(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, now = Layout.of(settings), datetime.now(UTC)
    assert renew(layout, "s", "stream_s/other", now - timedelta(seconds=10)) is None

    def it_lives(seconds: float) -> None:
        renew(layout, "s", "stream_s/other", datetime.now(UTC))

    monkeypatch.setattr("time.sleep", it_lives)
    deploy("manual__1")
    assert sent_messages(settings.home) == []


def test_a_receiver_that_is_away_is_tried_again_and_the_stream_left_to_others_meanwhile(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(settings, "tests.airflow.alerts.test_notifications.Refusing")
    layout, free = Layout.of(settings), []

    def time_passes(seconds: float) -> None:
        free.append(read_supervisor(layout, "s") is None)
        listen(settings, "stateward.airflow.notifiers.json_lines.JsonLinesNotifier")
        make_due(layout)

    monkeypatch.setattr("time.sleep", time_passes)
    deploy("manual__1")
    assert free == [True]
    assert [one["event"] for one in sent_messages(settings.home)] == ["opened"]
