"""Telling of incidents through Airflow's notifiers, also through one that fails, hangs or is missing."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from airflow.sdk import BaseNotifier

from stateward.airflow.notifiers import delivery
from stateward.airflow.notifiers.dispatcher import Dispatcher
from stateward.alerts.incident import Observation
from stateward.alerts.incident_document import incidents_uri, read_incidents
from stateward.alerts.outbox import Delivery
from stateward.contract.stream_control import Control
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.decide import Action, Done, GiveUp, Healthy, Observed
from stateward.control.reconcile.leader_heartbeat import claim
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.airflow.conftest import make_due, sent_messages

pytestmark = pytest.mark.airflow

JSON_LINES = "stateward.airflow.notifiers.json_lines.JsonLinesNotifier"
NO_NOTIFIER = "stateward.project.settings.Settings"
HERE = "tests.airflow.alerts.test_notifications"


class Refusing(BaseNotifier):
    """STAND-IN for a mail server that does not answer."""

    def notify(self, context: Any) -> None:
        raise ConnectionError("https://chat.example.com/secret refuses")


class Slow(BaseNotifier):
    """STAND-IN for a mail server that never ends to answer."""

    def notify(self, context: Any) -> None:
        time.sleep(3600)  # who waits for it is ended before


class Addressed(BaseNotifier):
    """STAND-IN for a mail: its fields are templates."""

    template_fields = ("subject",)

    def __init__(self, subject: str, to: str) -> None:
        super().__init__()
        self.subject, self.to = subject, to

    def notify(self, context: Any) -> None:
        Path(self.to).write_text(self.subject)


@pytest.fixture
def dispatcher(tmp_path: Path) -> Dispatcher:
    """A dispatcher whose file of notifiers is `notifiers.yaml`, and which writes to `messages`."""
    settings = Settings(home=tmp_path, notifiers=tmp_path / "notifiers.yaml", resolve_after_s=0)
    made = Dispatcher("s", "stream_s/manual__1+00:00", {}, settings)
    notifiers(made, f"- class: {JSON_LINES}\n  kwargs: {{path: {tmp_path}/messages}}\n")
    return made


def notifiers(dispatcher: Dispatcher, text: str) -> None:
    dispatcher.settings.notifiers.write_text(text)


def look(action: Action | None = None) -> Observation:
    now = datetime.now(UTC)
    control = Control("s", "running", "r1", now, "someone", "why")
    seen = Observed(control, None, Presence.GONE)
    return Observation("s", action or GiveUp("driver failed: the disk is broken"), seen, now)


def sent(dispatcher: Dispatcher) -> list[dict[str, Any]]:
    return sent_messages(dispatcher.settings.home)


def deliveries(dispatcher: Dispatcher) -> list[Delivery]:
    return [one for outgoing in read_incidents(dispatcher.layout, "s").outbox for one in outgoing.deliveries]


def test_what_a_receiver_gets(dispatcher: Dispatcher) -> None:
    assert dispatcher.attend(look()).to_send is False
    (message,) = sent(dispatcher)
    assert message["message_id"] == f"{message['id']}/opened"
    assert message["title"] == "critical: s: the driver keeps failing, and is not started again"
    assert message["cause"] == "Driver failed: the disk is broken."
    assert message["links"] == {
        "dag_run": "http://localhost:18080/dags/stream_s/runs/manual__1%2B00%3A00",
        "page": "http://localhost:18080/stateward/streams/index.html#s",
        "runbook": "docs/runbook.md",
    }
    assert "What to do: Look at the end of the driver's log (`stateward logs s`)" in message["text"]
    for _ in range(3):
        assert dispatcher.attend(look()).to_send is False
    assert len(sent(dispatcher)) == 1


def test_templates_have_the_incident(dispatcher: Dispatcher) -> None:
    to = dispatcher.settings.home / "mail"
    subject = "{{ incident.title }} ({{ incident.stream }})"
    notifiers(dispatcher, f"- class: {HERE}.Addressed\n  kwargs: {{subject: '{subject}', to: {to}}}\n")
    dispatcher.attend(look())
    assert to.read_text() == "critical: s: the driver keeps failing, and is not started again (s)"


def test_one_that_refuses_costs_the_others_nothing_and_is_tried_again_with_a_bound(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    notifiers(dispatcher, f"- class: {HERE}.Refusing\n{dispatcher.settings.notifiers.read_text()}")
    assert dispatcher.attend(look()).to_send is True
    assert len(sent(dispatcher)) == 1
    assert "notifier Refusing did not accept s-driver-" in caplog.text
    assert "attempt 1 of 5" in caplog.text
    # The document is readable by more people than the log, which hides secrets.
    assert "secret" not in json.dumps(_document(dispatcher))
    left = [True]
    while left[-1]:
        assert dispatcher.attend(look()).to_send is True, "it does not wait before it tries again"
        make_due(dispatcher.layout)
        left.append(dispatcher.attend(look()).to_send)
    assert left == [True, True, True, True, False]
    assert "attempt 5 of 5" in caplog.text
    assert len(sent(dispatcher)) == 1


def test_one_that_hangs_is_given_up_on_in_time(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LONGEST_S", 0.2)
    notifiers(dispatcher, f"- class: {HERE}.Slow\n{dispatcher.settings.notifiers.read_text()}")
    assert dispatcher.attend(look()).to_send is True
    assert {one.notifier: one.problem for one in deliveries(dispatcher)} == {
        "Slow": "AirflowTaskTimeout",
        "JsonLinesNotifier": "",
    }


def test_a_supervisor_killed_while_it_sent_makes_its_successor_send_again(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remaining window: the message is sent twice with the same id, and without this never."""

    class KilledError(BaseException):
        pass

    def die(*arguments: Any) -> None:
        raise KilledError

    with monkeypatch.context() as dying, pytest.raises(KilledError):
        dying.setattr("stateward.airflow.notifiers.dispatcher.succeeded", die)
        dispatcher.attend(look())
    assert len(sent(dispatcher)) == 1
    dispatcher.attend(look())
    assert len(sent(dispatcher)) == 1, "it does not wait before it tries again"
    make_due(dispatcher.layout)
    assert dispatcher.attend(look()).to_send is False
    first, second = sent(dispatcher)
    assert first["message_id"] == second["message_id"]


def test_one_whose_class_is_missing_is_named_before_it_is_needed(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    notifiers(
        dispatcher,
        f"- class: not.There\n- class: {JSON_LINES}\n- class: {NO_NOTIFIER}\n- clas: x\n",
    )
    dispatcher.check()
    assert "notifier There: class: expected one that can be imported, found not.There" in caplog.text
    assert "notifier JsonLinesNotifier: kwargs: expected what" in caplog.text
    assert f"expected a subclass of Airflow's BaseNotifier, found {NO_NOTIFIER}" in caplog.text
    assert "[3].clas: expected one of class, name," in caplog.text
    assert dispatcher.attend(look()).to_send is True


def test_a_file_that_is_corrected_in_time_loses_no_message(dispatcher: Dispatcher) -> None:
    right = dispatcher.settings.notifiers.read_text()
    notifiers(dispatcher, "- class: [\n")
    assert dispatcher.attend(look()).to_send is True
    notifiers(dispatcher, right)
    make_due(dispatcher.layout)
    assert dispatcher.attend(look()).to_send is False
    assert len(sent(dispatcher)) == 1


def test_a_resolution_follows(dispatcher: Dispatcher) -> None:
    dispatcher.attend(look())
    dispatcher.attend(look(Done("stopped, as someone has asked")))
    opened, resolved = sent(dispatcher)
    assert (opened["event"], resolved["event"]) == ("opened", "resolved")
    assert resolved["id"] == opened["id"]
    assert resolved["title"].startswith("Resolved: s: ")
    assert "Stopped, as someone has asked." in resolved["text"]


def test_incidents_that_cannot_be_written_down_stop_nothing(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    Path(incidents_uri(dispatcher.layout, "s").removeprefix("file://")).mkdir(parents=True)
    left = dispatcher.attend(look())
    assert left.to_send is False
    assert left.not_before is not None
    assert "the task continues" in caplog.text
    assert sent(dispatcher) == []


def test_incidents_that_cannot_be_read_start_over(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path(incidents_uri(dispatcher.layout, "s").removeprefix("file://"))
    file.parent.mkdir(parents=True)
    file.write_text('{"memory": 3}')
    dispatcher.attend(look())
    assert "starting without any" in caplog.text
    assert len(sent(dispatcher)) == 1


def test_nothing_is_written_while_nothing_happens(dispatcher: Dispatcher) -> None:
    for _ in range(3):
        dispatcher.attend(look(Healthy("running")))
    assert _document(dispatcher)["revision"] == 1  # that it has looked
    assert claim(dispatcher.layout, "s", "other/run", datetime.now(UTC)) is None


def _document(dispatcher: Dispatcher) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        Path(incidents_uri(Layout.of(dispatcher.settings), "s").removeprefix("file://")).read_text()
    )
    return found


class MailServer(socketserver.StreamRequestHandler):
    """STAND-IN for a mail server: takes one mail, and keeps what it was sent."""

    got: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.say("220 here")
        in_text = False
        while raw := self.rfile.readline():
            line = raw.decode().rstrip()
            self.got.append(line)
            command = "" if in_text else line.upper()[:4]
            if command == "DATA" or (in_text and line != "."):
                if not in_text:
                    self.say("354 go on")
                in_text = True
                continue
            in_text = False
            self.say("221 bye" if command == "QUIT" else "250 ok")

    def say(self, answer: str) -> None:
        self.wfile.write(f"{answer}\r\n".encode())


def test_the_mail_of_the_shipped_example_arrives(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's own notifier for mail, with its own connection and templates."""
    lines = Settings().notifiers.read_text().splitlines()
    notifiers(dispatcher, "\n".join(line[2:] for line in lines if line.startswith(("# - ", "#   "))))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        extra = {"disable_ssl": True, "disable_tls": True, "from_email": "stateward@example.com"}
        host, port = server.server_address[:2]
        connection = {"conn_type": "smtp", "host": host, "port": port, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        left = dispatcher.attend(look())
        server.shutdown()
    assert left.to_send is False, deliveries(dispatcher)
    mail = "\n".join(MailServer.got)
    assert "Subject: critical: s: the driver keeps failing, and is not started again" in mail
    assert "RCPT TO:<on-call@example.com>" in mail.upper().replace(
        "ON-CALL@EXAMPLE.COM", "on-call@example.com"
    )
