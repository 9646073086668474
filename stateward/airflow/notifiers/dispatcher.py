"""Stores incidents of a stream or of a table, and sends messages that are due. Never fails a task.

The document is written before a notifier is called, and again afterwards. If the process dies in between,
the message is sent again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stateward.airflow.notifiers.delivery import complaints, deliver
from stateward.alerts.incident import IncidentState, Message, Observation, next_incidents
from stateward.alerts.incident_document import (
    CarriedIncidents,
    IncidentDocument,
    change_incidents,
    read_incidents,
)
from stateward.alerts.notifier_config import THE_FILE, Notifiers, load_notifiers
from stateward.alerts.outbox import (
    MOST_ATTEMPTS,
    Outbox,
    also_to,
    attempted,
    attempts,
    failed,
    is_open,
    put,
    succeeded,
    to_send,
)
from stateward.alerts.table_incident import Judged, next_table_incidents
from stateward.alerts.template_context import incident_context
from stateward.control.reconcile.leader_heartbeat import renew
from stateward.project.layout import Layout
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

_LONGEST_S = 15.0
"""After this time the remaining messages wait for the next observation of the driver."""

_AFTER_ERROR = timedelta(minutes=1)


@dataclass(frozen=True)
class Remaining:
    """Remaining work.

    Attributes:
        to_send: Whether messages have open deliveries.
        not_before: When to process incidents again after an error; None: at once.
    """

    to_send: bool = False
    not_before: datetime | None = None


@dataclass(frozen=True)
class Dispatcher:
    """Reports incidents of one stream, in the DAG run that supervises it, or those of a part of it.

    Attributes:
        stream: The stream's name.
        dag_run: The run, `<dag id>/<run id>`; a supervisor's heartbeat is renewed while messages are sent.
        context: The task's context.
        settings: The installation's settings.
        part: The validated table, or `state_care`; empty for the supervising run.
    """

    stream: str
    dag_run: str
    context: Context
    settings: Settings
    part: str = ""

    @property
    def _document(self) -> str:
        return f"{self.stream}.{self.part}" if self.part else self.stream

    @property
    def layout(self) -> Layout:
        """Where the documents lie."""
        return Layout.of(self.settings)

    def check(self) -> None:
        """Log the problems of the file of notifiers."""
        for complaint in complaints(self._notifiers()):
            log.error("stream %s: a notifier of its incidents cannot be used: %s", self.stream, complaint)

    def has_something(self) -> bool:
        """Whether an incident or a delivery is open."""
        try:
            incidents = read_incidents(self.layout, self._document)
        except OSError:
            return False
        return bool(incidents.memory.open) or is_open(incidents.outbox)

    def attend(self, look: Observation, carried: CarriedIncidents | None = None) -> Remaining:
        """Store the stream's incidents after an observation, and send messages that are due. Never raises.

        Args:
            look: The observation, after all actions that were due.
            carried: Incidents that the trigger has passed.
        """
        return self._attended(lambda incidents: self._taken_in(incidents, look, carried), look.now)

    def attend_table(self, judged: Judged) -> Remaining:
        """Store the table's incidents after a validation, and send messages that are due. Never raises.

        Args:
            judged: The newest validation; processing it twice changes nothing.
        """

        def taken_in(incidents: IncidentDocument) -> IncidentDocument:
            return self._put(incidents, *next_table_incidents(incidents.memory, judged))

        return self._attended(taken_in, judged.at)

    def attend_message(self, message: Message) -> Remaining:
        """Store a message about something that is over, and send it if it is due. Never raises.

        Args:
            message: The message; processing it twice changes nothing.
        """

        def taken_in(incidents: IncidentDocument) -> IncidentDocument:
            is_known = any(one.message.id == message.id for one in incidents.outbox)
            return incidents if is_known else self._put(incidents, incidents.memory, (message,))

        return self._attended(taken_in, message.at)

    def _attended(self, take_in: Callable[[IncidentDocument], IncidentDocument], now: datetime) -> Remaining:
        try:
            incidents = change_incidents(self.layout, self._document, take_in)
            return Remaining(is_open(self._sent(incidents).outbox))
        except Exception:
            log.exception(
                "stream %s: cannot store or send incidents of %s; the task continues, and tries again later",
                self.stream,
                self._document,
            )
            return Remaining(not_before=now + _AFTER_ERROR)

    def _notifiers(self) -> Notifiers:
        return load_notifiers(self.settings.notifiers)

    def _taken_in(
        self, incidents: IncidentDocument, look: Observation, carried: CarriedIncidents | None
    ) -> IncidentDocument:
        known, before = incidents.memory, tuple[Message, ...]()
        if carried is not None and carried.revision == incidents.revision:
            known, before = carried.memory, carried.messages
        memory, messages = next_incidents(known, look, timedelta(seconds=self.settings.resolve_after_s))
        return self._put(incidents, memory, (*before, *messages))

    def _put(
        self, incidents: IncidentDocument, memory: IncidentState, new: tuple[Message, ...]
    ) -> IncidentDocument:
        for message in new:
            log.warning("stream %s: incident %s: %s", self.stream, message.id, message.incident.words.cause)
        outbox = put(incidents.outbox, new, self._notifiers().names) if new else incidents.outbox
        return replace(incidents, memory=memory, outbox=outbox)

    def _sent(self, incidents: IncidentDocument) -> IncidentDocument:
        ends = time.monotonic() + _LONGEST_S
        while time.monotonic() < ends and (due := to_send(incidents.outbox, datetime.now(UTC))):
            message, name = due[0]
            if not self.part:
                renew(self.layout, self.stream, self.dag_run, datetime.now(UTC))
            incidents = self._attempt(message, name)
        return incidents

    def _attempt(self, message: Message, name: str) -> IncidentDocument:
        at = datetime.now(UTC)
        incidents = self._change(lambda outbox: attempted(outbox, message, name, at))
        problem = self._read_again(message) if name == THE_FILE else self._delivered(message, name)
        if not problem:
            return self._change(lambda outbox: succeeded(outbox, message, name, datetime.now(UTC)))
        log.error(
            "stream %s: notifier %s did not accept %s, attempt %d of %d: %s",
            self.stream,
            name,
            message.id,
            attempts(incidents.outbox, message, name),
            MOST_ATTEMPTS,
            problem,
        )
        # Only the log hides secrets, such as the address of a webhook.
        kind = str(problem) if isinstance(problem, str) else type(problem).__name__
        return self._change(lambda outbox: failed(outbox, message, name, kind))

    def _delivered(self, message: Message, name: str) -> str | BaseException | None:
        entry = self._notifiers().entry(name)
        if entry is None:
            return f"it is no longer in {self.settings.notifiers}"
        facts = incident_context(message, self.settings.airflow_url, self.dag_run)
        error = deliver(entry, self.context, facts)
        if error is None:
            log.info("stream %s: notifier %s has accepted %s", self.stream, name, message.id)
        return error

    def _read_again(self, message: Message) -> str | None:
        """Add deliveries for entries of the file that were invalid before."""
        notifiers = self._notifiers()
        if notifiers.problems:
            return "; ".join(str(problem) for problem in notifiers.problems)
        now = datetime.now(UTC)
        self._change(lambda outbox: also_to(outbox, message, notifiers.names(message), now))
        return None

    def _change(self, change: Callable[[Outbox], Outbox]) -> IncidentDocument:
        return change_incidents(
            self.layout, self._document, lambda incidents: replace(incidents, outbox=change(incidents.outbox))
        )
