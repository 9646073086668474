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
    """Appends one JSON object a line: what templates have as `incident`.

    Args:
        path: The file, on the machine of the task; made if it is not there.
    """

    template_fields: Sequence[str] = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def notify(self, context: Context) -> None:
        """Append the message, and see that it is on the disk."""
        line = json.dumps(context["incident"], ensure_ascii=False)  # type: ignore[typeddict-item]
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
