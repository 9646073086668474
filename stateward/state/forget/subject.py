"""The key that is to be forgotten, and how it is recognised in records, rows and texts. Pure."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from functools import cached_property

from stateward.contract.privacy.erasing import ERASED, as_word


@dataclass(frozen=True)
class Subject:
    """A key.

    Attributes:
        field: The field of the stream's key.
        key: Its value.
        mask: What people see in its place in results and pages (`quality.privacy`).
    """

    field: str
    key: str
    mask: str

    def is_in_record(self, key: bytes | None, value: bytes | None) -> bool:
        """Whether a record of Kafka is the key's.

        The field decides. A record that has no such field, because it is malformed, is the key's if the key
        is in it as a whole word, or is its key in Kafka.
        """
        owner = self._owner(value)
        if owner is not None:
            return owner == self.key
        return (key is not None and key == self.key.encode()) or self._is_word_in(value)

    def is_in_text(self, text: str | None) -> bool:
        """Whether a text has the key as a whole word, or its mask."""
        return bool(text) and self._words.search(text or "") is not None

    def is_in_json(self, text: str | None) -> bool:
        """Whether a JSON object has the key in its field."""
        return text is not None and self._owner(text.encode()) == self.key

    def erased(self, text: str) -> str:
        """A text without the key and its mask."""
        return self._words.sub(ERASED, text)

    def _owner(self, value: bytes | None) -> str | None:
        try:
            document = json.loads(value or b"")
        except (ValueError, RecursionError):
            return None
        owner = document.get(self.field) if isinstance(document, dict) else None
        return owner if isinstance(owner, str) else None

    def _is_word_in(self, value: bytes | None) -> bool:
        return value is not None and self._words.search(value.decode("utf-8", "replace")) is not None

    @cached_property
    def _words(self) -> re.Pattern[str]:
        escaped = json.dumps(self.key)[1:-1]
        forms = {self.key, escaped, html.escape(self.key), html.escape(escaped), self.mask}
        return as_word(*forms)
