"""A notifier that appends each message to a file, for programs and for tests."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context


class JsonLinesNotifier(BaseNotifier):
    """Appends the variable `incident` of templates as one line of JSON.

    Args:
        path: The file, on the task's machine; created if it is missing.
    """

    template_fields: Sequence[str] = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def notify(self, context: Context) -> None:
        """Append the message, and sync the file."""
        line = json.dumps(context["incident"], ensure_ascii=False)  # type: ignore[typeddict-item]
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
