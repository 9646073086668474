"""Create one notifier and send one message with it, within a time limit."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier
from airflow.sdk.execution_time.timeout import timeout

from stateward.airflow.compat import AirflowTaskTimeout
from stateward.alerts.notifier_config import Declared, Notifiers

if TYPE_CHECKING:
    from airflow.sdk import Context

LONGEST_S = 15
"""Time limit of a notifier for one message. The driver is not watched meanwhile."""


class NotifierError(ValueError):
    """A notifier cannot be created; the text says why, and what to do."""


def make(entry: Declared) -> BaseNotifier:
    """Create a notifier as the file declares it.

    Raises:
        NotifierError: Its class is missing, is no notifier, or does not accept the arguments.
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
    """List the problems of a file of notifiers."""
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
    """Send a message with a notifier.

    Args:
        entry: The notifier.
        context: The task's context.
        incident: The variable `incident` of its templates.

    Returns:
        The error; None when the notifier has accepted the message.
    """
    try:
        with timeout(LONGEST_S, f"expected an answer within {LONGEST_S} s"):
            # A copy, because a notifier adds its own fields.
            make(entry)({**context, "incident": incident})
    except (Exception, AirflowTaskTimeout) as error:
        return error
    return None
