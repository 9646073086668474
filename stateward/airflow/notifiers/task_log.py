"""A notifier that writes each message to the log of the task that supervises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context


class TaskLogNotifier(BaseNotifier):
    """Writes one message of several lines, to be found by the incident's name.

    Args:
        text: What is written, a template.
    """

    template_fields: Sequence[str] = ("text",)

    def __init__(self, text: str = "{{ incident.text }}") -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Context) -> None:
        """Write the message; what is over is no warning."""
        over = context["incident"]["event"] == "resolved"  # type: ignore[typeddict-item]
        (self.log.info if over else self.log.warning)("%s", self.text)
