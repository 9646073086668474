"""Whether savepoints are whole: every file is read and compared with the manifest."""

from __future__ import annotations

from dataclasses import dataclass

from stateward.contract.job_steps import READY, Report
from stateward.state.operation.errors import StateError
from stateward.state.savepoints.savepoint_catalog import Savepoint, SavepointCatalog


@dataclass(frozen=True)
class Verified:
    """Every savepoint that was looked at, the oldest first."""

    savepoints: tuple[Savepoint, ...]

    @property
    def all_good(self) -> bool:
        """Whether none is broken."""
        return all(one.is_good for one in self.savepoints)


def verify(shelf: SavepointCatalog, savepoint: str | None, report: Report) -> Verified:
    """Look at one savepoint, or at all.

    Raises:
        StateError: There is none of that id.
    """
    ids = shelf.ids()
    if savepoint is not None and savepoint not in ids:
        raise StateError(f"expected a savepoint {savepoint}, found {', '.join(ids) or 'none'}")
    looked = []
    for one in ids if savepoint is None else [savepoint]:
        report(one, "reading")
        looked.append(shelf.look(one))
        report(one, READY)
    return Verified(tuple(looked))
