"""How tasks tell people of incidents: of a stream as the one that supervises it, of a table after a look."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from stateward.airflow.notifiers.dispatcher import Dispatcher, Remaining
from stateward.alerts.incident import Observation
from stateward.alerts.incident_document import CarriedIncidents
from stateward.alerts.table_incident import Judged
from stateward.control.reconcile.decide import Action
from stateward.control.reconcile.documents import DocumentError
from stateward.control.reconcile.executor import locked
from stateward.control.reconcile.leader_heartbeat import claim, release
from stateward.control.reconcile.observe import observe
from stateward.control.reconcile.status import Supervisor

log = logging.getLogger(__name__)

_AGAIN_S = 5.0


def become_supervisor(dispatcher: Dispatcher, poll_s: float) -> Supervisor | None:
    """Become the supervisor, or return the other one once it has shown that it lives.

    Args:
        dispatcher: Of the stream, and of the run that wants to be.
        poll_s: Time between two looks, seconds.
    """
    layout, stream = dispatcher.layout, dispatcher.stream
    first: Supervisor | None = None
    while True:
        with locked(layout, stream):
            other = claim(layout, stream, dispatcher.dag_run, datetime.now(UTC))
        first = first or other
        # A fresh heartbeat may be the last one of a supervisor that has just been killed; within
        # its lifetime there is a second one, or it goes stale and is taken over.
        if other is None or first is None or (other.dag_run, other.at) != (first.dag_run, first.at):
            return other
        time.sleep(poll_s)


def deliver(dispatcher: Dispatcher, action: Action, carried: CarriedIncidents | None = None) -> Remaining:
    """Take in one look at the stream, and send what is due. Never raises.

    Args:
        dispatcher: Of the stream, and of the run that supervises it.
        action: What was decided, and done.
        carried: What the trigger saw before.
    """
    try:
        seen = observe(dispatcher.layout, dispatcher.stream)
    except (OSError, DocumentError) as error:
        log.warning("stream %s: cannot be looked at for incidents: %s", dispatcher.stream, error)
        return Remaining()
    return dispatcher.attend(Observation(dispatcher.stream, action, seen, datetime.now(UTC)), carried)


def tell_last(dispatcher: Dispatcher, action: Action, poll_s: float) -> None:
    """Tell with what a task that does not supervise ends, and see that it is heard. Never raises.

    Where another run supervises the stream, that one has seen it and tells. Between two attempts nobody is
    the supervisor, so that a run which is triggered meanwhile need not wait for this one.

    Args:
        dispatcher: Of the stream, and of the run.
        action: What was decided.
        poll_s: Time between two looks at another supervisor, seconds.
    """
    try:
        while become_supervisor(dispatcher, poll_s) is None:
            left = deliver(dispatcher, action)
            release(dispatcher.layout, dispatcher.stream, dispatcher.dag_run)
            if not left.to_send:
                return
            time.sleep(_AGAIN_S)
    except (OSError, DocumentError) as error:
        log.warning("stream %s: nobody can be told of its incident: %s", dispatcher.stream, error)


def tell_of_table(dispatcher: Dispatcher, judged: Judged) -> None:
    """Tell of a table what its newest validation has found, and see that it is heard. Never raises.

    Args:
        dispatcher: Of the table, and of the run that has validated it.
        judged: What was found.
    """
    while dispatcher.attend_table(judged).to_send:
        time.sleep(_AGAIN_S)
