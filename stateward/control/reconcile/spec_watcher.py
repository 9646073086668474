"""Notices that a stream's YAML has changed, once for each change that can be used."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from stateward.project.spec import SpecError, load_spec

_LOG = logging.getLogger(__name__)


def digest_of(stream: str, folder: Path) -> str:
    """Return the SHA-256 of a stream's YAML as it is, sound or not; empty when it cannot be read."""
    try:
        return hashlib.sha256((folder / f"{stream}.yaml").read_bytes()).hexdigest()
    except OSError:
        return ""


@dataclass
class YamlWatch:
    """Looks at one file.

    Attributes:
        stream: The stream.
        folder: Where its YAML lies.
        known: `digest_of` what was read last, taken before it was read: so no edit is missed, however long
            it takes until the watch starts. None: the first read sets it.
    """

    stream: str
    folder: Path
    known: str | None = None

    def changed(self) -> bool:
        """Tell whether the YAML is another one than is known, and sound; then it is known.

        One that is not sound, or gone, is said in the log, and what runs goes on as it was started.
        """
        found = digest_of(self.stream, self.folder)
        if found == self.known:
            return False
        is_first, self.known = self.known is None, found
        if is_first:
            return False
        try:
            load_spec(self.stream, self.folder)
        except SpecError as error:
            _LOG.warning("stream %s: its YAML has changed and is not used: %s", self.stream, error)
            return False
        return True
