"""Make one notifier and have it send one message, within bounds, whatever it does."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import timeout

from stateward.alerts.notifier_config import Declared, Notifiers

if TYPE_CHECKING:
    from airflow.sdk import Context

LONGEST_S = 15
"""How long a notifier may take for a message. Nobody watches the driver meanwhile."""


class NotifierError(ValueError):
    """A notifier cannot be made; the text says why, and what to do."""


def make(entry: Declared) -> BaseNotifier:
    """Make a notifier as it was declared.

    Raises:
        NotifierError: Its class is not there, is no notifier, or does not take the arguments.
    """
    try:
        cls = resolve_name(entry.class_path)
    except Exception as error:
        raise NotifierError(
            f"class: expected one that can be imported, found {entry.class_path} ({error}). Correct it, or"
            " install the provider that has it."
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, BaseNotifier)):
        raise NotifierError(
            f"class: expected a subclass of Airflow's BaseNotifier, found {entry.class_path}. Name a"
            " notifier, as those of docs/alerts.md."
        )
    try:
        return cls(**entry.kwargs)
    except Exception as error:
        raise NotifierError(
            f"kwargs: expected what {entry.class_path} takes, found {', '.join(entry.kwargs) or 'nothing'}"
            f" ({error}). See its documentation."
        ) from error


def complaints(notifiers: Notifiers) -> list[str]:
    """Say what is wrong with a file of notifiers, before the first incident."""
    found = [str(problem) for problem in notifiers.problems]
    for entry in notifiers.entries:
        try:
            make(entry)
        except NotifierError as error:
            found.append(f"notifier {entry.label}: {error}")
    return found


def deliver(
    entry: Declared, context: Context, incident: dict[str, Any]
) -> Exception | AirflowTaskTimeout | None:
    """Have a notifier send a message.

    Args:
        entry: Which.
        context: Airflow's, of the task.
        incident: What its templates have as `incident`.

    Returns:
        What it met; None when it has taken the message.
    """
    try:
        with timeout(LONGEST_S, f"expected an answer within {LONGEST_S} s"):  # type: ignore[no-untyped-call]
            # A copy, for a notifier adds its own fields to it.
            make(entry)({**context, "incident": incident})
    except (Exception, AirflowTaskTimeout) as error:
        return error
    return None
