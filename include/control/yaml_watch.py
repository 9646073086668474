"""Notices that a stream's YAML has changed, once for each change that can be used."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from include.spec import SpecError, load_spec

_LOG = logging.getLogger(__name__)

_Stamp = tuple[int, int] | None


@dataclass
class YamlWatch:
    """Looks at one file. What it has when it is first looked at is known.

    Attributes:
        stream: The stream.
        folder: Where its YAML lies.
    """

    stream: str
    folder: Path
    _known: _Stamp = None
    _begun: bool = False

    def changed(self) -> bool:
        """Tell whether the YAML is another one than at the last look, and sound.

        One that is not sound, or gone, is said in the log, and what runs goes on as it was started.
        """
        stamp = self._stamp()
        if not self._begun:
            self._begun, self._known = True, stamp
            return False
        if stamp == self._known:
            return False
        self._known = stamp
        try:
            load_spec(self.stream, self.folder)
        except SpecError as error:
            _LOG.warning("stream %s: its YAML has changed and is not used: %s", self.stream, error)
            return False
        return True

    def _stamp(self) -> _Stamp:
        try:
            found = (self.folder / f"{self.stream}.yaml").stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
