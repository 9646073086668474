"""The verbs ``savepoints`` and ``verify``: read every file of savepoints, and compare it to the manifest."""

from __future__ import annotations

from collections.abc import Sequence

from stateward.contract.process_output import READY, Report
from stateward.state.errors import StateError
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import ReadOnly
from stateward.state.savepoints.savepoint_catalog import Savepoint, SavepointCatalog

_SHOWN_PROBLEMS = 5


class SavepointsVerb(ReadOnly):
    """List the savepoints, good and broken."""

    name = "savepoints"

    def apply(self) -> Answer:
        """Verify all of them; a broken one is no error here."""
        found = verify(self.context.catalog, None, self.context.report)
        good = sum(one.is_good for one in found)
        line = f"{self.context.stream} has {len(found)} savepoints, of which {good} are good."
        return _answer(line, found, is_good=True)


class VerifyVerb(ReadOnly):
    """Report whether a savepoint, or each of them, is whole."""

    name = "verify"

    def apply(self) -> Answer:
        """Verify one savepoint, or all."""
        found = verify(self.context.catalog, self.context.request.arguments["savepoint"], self.context.report)
        broken = [one.savepoint for one in found if not one.is_good]
        line = f"Broken: {', '.join(broken)}." if broken else "Every file is what it was."
        return _answer(line, found, is_good=not broken)


def verify(catalog: SavepointCatalog, savepoint: str | None, report: Report) -> list[Savepoint]:
    """Read one savepoint, or all, the oldest first.

    Raises:
        StateError: There is none of that id.
    """
    ids = catalog.ids()
    if savepoint is not None and savepoint not in ids:
        raise StateError(f"expected a savepoint {savepoint}, found {', '.join(ids) or 'none'}")
    found = []
    for one in ids if savepoint is None else [savepoint]:
        report(one, "reading")
        found.append(catalog.look(one))
        report(one, READY)
    return found


def _answer(line: str, savepoints: Sequence[Savepoint], *, is_good: bool) -> Answer:
    columns = ("savepoint", "state", "generation", "batch", "files", "bytes", "reason")
    data = [
        {
            "savepoint": one.savepoint,
            "uri": one.uri,
            "good": one.is_good,
            "problems": list(one.problems),
            "made_at": None if one.manifest is None else one.manifest.made_at,
        }
        for one in savepoints
    ]
    listing = Listing("Savepoints", columns, [_row(one) for one in savepoints])
    return Answer((line,), (listing,), {"savepoints": data}, is_good)


def _row(one: Savepoint) -> tuple[str | int | None, ...]:
    shown = "; ".join(one.problems[:_SHOWN_PROBLEMS])
    more = len(one.problems) - _SHOWN_PROBLEMS
    state = "good" if one.is_good else f"broken: {shown}" + (f"; and {more} more" if more > 0 else "")
    if (made := one.manifest) is None:
        return one.savepoint, state, None, None, None, None, None
    return one.savepoint, state, made.generation, made.last_batch, len(made.files), made.size, made.reason
