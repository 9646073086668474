"""Keeps `control/<stream>.care.json`: the looks at a state, and what was changed of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from stateward.contract.reading import InvalidDocumentError, as_json
from stateward.contract.state_care import CareRecord, Change, Look, Outcome, care_record_from
from stateward.contract.storage import CorruptDocumentError, read_json, write_json
from stateward.project.layout import Layout

log = logging.getLogger(__name__)

_LOOKS, _CHANGES = 60, 60


def record_uri(layout: Layout, stream: str) -> str:
    """Return the URI of the record."""
    return layout.control_uri(stream).removesuffix(".json") + ".care.json"


def read_record(layout: Layout, stream: str) -> CareRecord:
    """Read the record; an empty one if there is none, or it cannot be read.

    Raises:
        OSError: The storage cannot be read.
    """
    uri = record_uri(layout, stream)
    try:
        document = read_json(uri)
        return CareRecord(stream=stream) if document is None else care_record_from(document, uri)
    except (CorruptDocumentError, InvalidDocumentError) as error:
        # Advice has to hold again before anything happens, which is the safe side.
        log.warning("stream %s: the record of its care cannot be read, and begins again: %s", stream, error)
        return CareRecord(stream=stream)


def add_look(layout: Layout, stream: str, look: Look) -> CareRecord:
    """Add a look, or replace the one of the same time; returns the record."""

    def added(record: CareRecord) -> CareRecord:
        others = tuple(one for one in record.looks if one.at != look.at)
        return replace(record, looks=(*others, look)[-_LOOKS:])

    return _change(layout, stream, added)


def add_change(layout: Layout, stream: str, change: Change) -> CareRecord:
    """Add a change, before it is made; returns the record."""
    return _change(
        layout, stream, lambda record: replace(record, changes=(*record.changes, change)[-_CHANGES:])
    )


def end_change(layout: Layout, stream: str, run: str, outcome: Outcome, now: datetime) -> Change | None:
    """Write down how a change ended.

    Args:
        layout: Where the record is.
        stream: The stream.
        run: The DAG run that carried it out.
        outcome: How it ended.
        now: The time, aware.

    Returns:
        The change; None if this run has made none.
    """
    ended: list[Change] = []

    def with_outcome(change: Change) -> Change:
        if change.run != run:
            return change
        if change.outcome != "begun":  # by an earlier try
            ended.append(change)
            return change
        ended.append(replace(change, outcome=outcome, pause_s=(now - change.at).total_seconds()))
        return ended[-1]

    _change(layout, stream, lambda record: replace(record, changes=tuple(map(with_outcome, record.changes))))
    return ended[-1] if ended else None


def _change(layout: Layout, stream: str, change: Callable[[CareRecord], CareRecord]) -> CareRecord:
    # Only the tasks of one DAG write it, and only one run of that is active.
    before = read_record(layout, stream)
    after = change(before)
    if after != before:
        write_json(record_uri(layout, stream), as_json(after))
    return after
