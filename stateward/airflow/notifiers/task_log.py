"""A notifier that writes each message to the task's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context


class TaskLogNotifier(BaseNotifier):
    """Logs one message of several lines.

    Args:
        text: The message, a template.
    """

    template_fields: Sequence[str] = ("text",)

    def __init__(self, text: str = "{{ incident.text }}") -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Context) -> None:
        """Log the message, as a warning unless the incident is resolved."""
        over = context["incident"]["event"] == "resolved"  # type: ignore[typeddict-item]
        (self.log.info if over else self.log.warning)("%s", self.text)
