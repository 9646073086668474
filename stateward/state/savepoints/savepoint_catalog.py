"""The catalog of a stream's savepoints, good and broken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from stateward.contract import storage
from stateward.state.errors import StateError
from stateward.state.files import checkpoint_copy
from stateward.state.savepoints import manifest
from stateward.state.savepoints.manifest import CHECKPOINT, Manifest, ManifestError

_STAMP = "%Y%m%dT%H%M%SZ"


def stamp(moment: datetime) -> str:
    """Format a time as part of an id: ``20261122T024500Z``."""
    return f"{moment.astimezone(UTC):{_STAMP}}"


@dataclass(frozen=True)
class Savepoint:
    """A savepoint in the catalog.

    Attributes:
        savepoint: Its id.
        uri: Its folder.
        manifest: None if it cannot be read.
        problems: What is wrong with it; empty if it is good.
    """

    savepoint: str
    uri: str
    manifest: Manifest | None
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether the savepoint is complete and unchanged; only then it can be restored."""
        return not self.problems

    @property
    def begun_at(self) -> datetime | None:
        """The time in its id; None if the folder has another name."""
        try:
            return datetime.strptime(self.savepoint[:16], _STAMP).replace(tzinfo=UTC)
        except ValueError:
            return None


class SavepointCatalog:
    """All savepoints of a stream.

    Args:
        stream: The stream.
        uri: The folder of its savepoints.
    """

    def __init__(self, stream: str, uri: str) -> None:
        self._stream = stream
        self._uri = uri.rstrip("/")

    def folder(self, savepoint: str) -> str:
        """Return the folder of a savepoint, whether it exists or not."""
        return f"{self._uri}/{savepoint}"

    def ids(self) -> list[str]:
        """List the ids, the oldest first."""
        return sorted(name for name in storage.list_names(self._uri) if not name.startswith("."))

    def look(self, savepoint: str) -> Savepoint:
        """Read a savepoint, and compare every file of it with the manifest."""
        uri = self.folder(savepoint)
        try:
            found = manifest.read(uri)
        except ManifestError as error:
            return Savepoint(savepoint, uri, None, (str(error),))
        problems = checkpoint_copy.problems_of(f"{uri}/{CHECKPOINT}", found.files)
        if (found.stream, found.savepoint) != (self._stream, savepoint):
            problems = [f"it is savepoint {found.savepoint} of stream {found.stream}", *problems]
        return Savepoint(savepoint, uri, found, tuple(problems))

    def require_good(self, savepoint: str | None) -> Manifest:
        """Return the manifest of a good savepoint, by default the newest good one.

        Raises:
            StateError: There is none, or it is broken.
        """
        if savepoint is None:
            return self._newest()
        if savepoint not in self.ids():
            raise StateError(
                f"stream {self._stream}: expected a savepoint {savepoint} in {self._uri}, found "
                f"{', '.join(self.ids()) or 'none'}."
            )
        looked = self.look(savepoint)
        if looked.manifest is None or not looked.is_good:
            raise StateError(
                f"stream {self._stream}: savepoint {savepoint} is broken: {'; '.join(looked.problems[:5])}. "
                f"Take another one; `stateward state savepoints {self._stream}` lists which are good."
            )
        return looked.manifest

    def _newest(self) -> Manifest:
        for savepoint in reversed(self.ids()):
            looked = self.look(savepoint)
            if looked.manifest is not None and looked.is_good:
                return looked.manifest
        raise StateError(
            f"stream {self._stream}: expected a good savepoint in {self._uri}, found none. Make one with "
            f"`stateward state savepoint {self._stream}`."
        )
