"""What the report of a comparison means: equal, different, or undecided. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

_SHOWN = 5


@dataclass(frozen=True)
class Verdict:
    """What came of a reconciliation.

    Attributes:
        kind: `equal`: no row differs. `wrong`: some do, and only an error can be the reason. `open`: some do,
            and they may be right, for a reason that the notes give.
        text: The verdict as a sentence.
        notes: What else has to be known.
    """

    kind: Literal["equal", "wrong", "open"]
    text: str
    notes: tuple[str, ...]


def verdict_of(report: Mapping[str, Any]) -> Verdict:
    """Judge the report of a comparison (`stateward/recompute/recompute.py`)."""
    notes = tuple(report["notes"])
    head = f"stream {report['stream']}, from {report['from']} to {report['to']}: "
    different = [entry for entry in report["tables"] if not entry["equal"]]
    if not different:
        return Verdict("equal", head + "equal. " + _counts(report), notes)
    lines = [_words(entry) for entry in different]
    if any(entry["sure"] for entry in different):
        first = f"{head}the tables are not what the events say. The stream is left as it is."
        return Verdict("wrong", "\n".join([first, *lines, *_as_notes(notes)]), notes)
    first = f"{head}rows differ, which does not show an error: {_why(report)}"
    return Verdict("open", "\n".join([first, *lines, *_as_notes(notes)]), notes)


def _counts(report: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{entry['compared']:,} rows of {entry['table']}" for entry in report["tables"])
    return f"Compared were {rows}, made of {report['counts'].get('events', 0):,} events."


def _words(entry: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(entry["kinds"].items()))
    sure = entry["different"] if entry["sure"] == entry["different"] else entry["sure"]
    open_rows = entry["different"] - sure
    beside = f", of which {open_rows:,} may still be right" if sure and open_rows else ""
    rows = "rows differs" if entry["different"] == 1 else "rows differ"
    return (
        f"  - {entry['table']}: {entry['different']:,} of {entry['compared']:,} {rows} ({kinds}){beside},"
        f" such as {_examples(entry)}. Each with its events: {entry['differences_uri']}, version"
        f" {entry['differences_version']}"
    )


def _examples(entry: Mapping[str, Any]) -> str:
    """The first columns' values of some rows, each row once, and what differs in it."""
    found: dict[str, str] = {}
    for row in entry["shown"]:
        name, value = next(
            (name, value)
            for name, value in row.items()
            if name not in ("only_in", "difference", "differs_in")
        )
        what = row["differs_in"] or row["difference"]
        found.setdefault(f"{name} {value}", str(what))
    shown = [f"{row} ({what})" for row, what in list(found.items())[:_SHOWN]]
    return ", ".join(shown)


def _why(report: Mapping[str, Any]) -> str:
    if report["sure"] is None:
        return "this range cannot be judged; see the notes."
    sure = report["sure"]
    return f"the part that can be judged, from {sure['from']} to {sure['to']}, is equal."


def _as_notes(notes: tuple[str, ...]) -> list[str]:
    return [f"Note: {note}" for note in notes]
