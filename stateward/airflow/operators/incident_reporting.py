"""How tasks report incidents: those of a stream as its supervisor, those of a table after a validation."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from stateward.airflow.notifiers.dispatcher import Dispatcher, Remaining
from stateward.alerts.incident import Message, Observation
from stateward.alerts.incident_document import CarriedIncidents
from stateward.alerts.table_incident import Judged
from stateward.contract.reading import InvalidDocumentError
from stateward.contract.stream_control import Supervisor
from stateward.control.reconcile.decide import Action
from stateward.control.reconcile.executor import locked
from stateward.control.reconcile.leader_heartbeat import claim, release
from stateward.control.reconcile.observe import observe

log = logging.getLogger(__name__)

_AGAIN_S = 5.0


def become_supervisor(dispatcher: Dispatcher, poll_s: float) -> Supervisor | None:
    """Become the supervisor, or return the other one if its heartbeat continues.

    Args:
        dispatcher: The dispatcher of the stream, in the run that is to supervise it.
        poll_s: Time between two checks, seconds.
    """
    layout, stream = dispatcher.layout, dispatcher.stream
    first: Supervisor | None = None
    while True:
        with locked(layout, stream):
            other = claim(layout, stream, dispatcher.dag_run, datetime.now(UTC))
        first = first or other
        # A fresh heartbeat may be the last one of a supervisor that was just killed: wait for a second one,
        # or until it is stale.
        if other is None or first is None or (other.dag_run, other.at) != (first.dag_run, first.at):
            return other
        time.sleep(poll_s)


def deliver(dispatcher: Dispatcher, action: Action, carried: CarriedIncidents | None = None) -> Remaining:
    """Observe the stream for incidents, and send messages that are due. Never raises.

    Args:
        dispatcher: The dispatcher of the stream, in the run that supervises it.
        action: The action that was carried out.
        carried: Incidents that the trigger has passed.
    """
    try:
        seen = observe(dispatcher.layout, dispatcher.stream)
    except (OSError, InvalidDocumentError) as error:
        log.warning("stream %s: cannot be observed for incidents: %s", dispatcher.stream, error)
        return Remaining()
    return dispatcher.attend(Observation(dispatcher.stream, action, seen, datetime.now(UTC)), carried)


def report_last(dispatcher: Dispatcher, action: Action, poll_s: float) -> None:
    """Report the end of a task that does not supervise, and wait for its delivery. Never raises.

    If another run supervises the stream, that run reports it. Between two attempts the stream has no
    supervisor, so that a run which is triggered meanwhile need not wait for this one.

    Args:
        dispatcher: The dispatcher of the stream, in this run.
        action: The action that ended the task.
        poll_s: Time between two checks of another supervisor, seconds.
    """
    try:
        while become_supervisor(dispatcher, poll_s) is None:
            left = deliver(dispatcher, action)
            release(dispatcher.layout, dispatcher.stream, dispatcher.dag_run)
            if not left.to_send:
                return
            time.sleep(_AGAIN_S)
    except (OSError, InvalidDocumentError) as error:
        log.warning("stream %s: cannot report its incident: %s", dispatcher.stream, error)


def report_table(dispatcher: Dispatcher, judged: Judged) -> None:
    """Report the newest validation of a table, and wait for the delivery. Never raises.

    Args:
        dispatcher: The dispatcher of the table, in the run that validated it.
        judged: The validation.
    """
    while dispatcher.attend_table(judged).to_send:
        time.sleep(_AGAIN_S)


def report_message(dispatcher: Dispatcher, message: Message) -> None:
    """Send a message about something that is over, and wait for the delivery. Never raises.

    Args:
        dispatcher: The dispatcher of what it is about, in this run.
        message: The message.
    """
    while dispatcher.attend_message(message).to_send:
        time.sleep(_AGAIN_S)
