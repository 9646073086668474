"""`control/<stream>.incidents.json`: open incidents and messages to send."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stateward.alerts.incident import IncidentState, Message
from stateward.alerts.outbox import Outbox
from stateward.contract.storage import CorruptDocumentError, read_json, write_json
from stateward.control.reconcile.executor import locked
from stateward.project.layout import Layout

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IncidentDocument:
    """The document. `revision` counts its changes."""

    stream: str
    revision: int = 0
    memory: IncidentState = field(default_factory=IncidentState)
    outbox: Outbox = ()


_ADAPTER = TypeAdapter(IncidentDocument)


def incidents_uri(layout: Layout, stream: str) -> str:
    """Return the document's URI."""
    return layout.control_uri(stream).removesuffix(".json") + ".incidents.json"


def to_json(incidents: IncidentDocument) -> dict[str, Any]:
    """Convert the document to plain values."""
    document: dict[str, Any] = _ADAPTER.dump_python(incidents, mode="json")
    return {"version": 1, **document}


def from_json(document: Mapping[str, Any]) -> IncidentDocument:
    """Convert plain values to a document.

    Raises:
        ValidationError: They are no such document.
    """
    return _ADAPTER.validate_python({**document})


def read_incidents(layout: Layout, stream: str) -> IncidentDocument:
    """Read the document; an empty one when it is missing or cannot be parsed.

    Raises:
        OSError: The storage cannot be read.
    """
    uri = incidents_uri(layout, stream)
    try:
        document = read_json(uri)
        return IncidentDocument(stream) if document is None else from_json(document)
    except (CorruptDocumentError, ValidationError) as error:
        # A duplicate message is better than none.
        log.warning("stream %s: cannot read its incidents, starting without any: %s", stream, error)
        return IncidentDocument(stream)


def change_incidents(
    layout: Layout, stream: str, change: Callable[[IncidentDocument], IncidentDocument]
) -> IncidentDocument:
    """Change the document, one process of this machine at a time.

    Returns:
        The document after the change.

    Raises:
        OSError: The storage cannot be read or written.
        TimeoutError: Another process has held the stream's lock for minutes.
    """
    with locked(layout, stream):
        before = read_incidents(layout, stream)
        after = change(before)
        if after == before:
            return before
        written = replace(after, revision=before.revision + 1)
        write_json(incidents_uri(layout, stream), to_json(written))
        return written


@dataclass(frozen=True)
class CarriedIncidents:
    """Incidents that a trigger passes to the task, which stores them.

    Attributes:
        revision: Revision of the document that the trigger started from; out of date if it has changed.
        memory: The state after the trigger's observations.
        messages: Messages to send.
    """

    revision: int
    memory: IncidentState
    messages: tuple[Message, ...] = ()


_CARRIED = TypeAdapter(CarriedIncidents)


def carried_to_json(carried: CarriedIncidents) -> dict[str, Any]:
    """Convert to plain values, for Airflow's database."""
    document: dict[str, Any] = _CARRIED.dump_python(carried, mode="json")
    return document


def carried_from_json(document: Mapping[str, Any] | None) -> CarriedIncidents | None:
    """Read the result of `carried_to_json`; None for None, and for that of an incompatible release."""
    try:
        return None if document is None else _CARRIED.validate_python({**document})
    except ValidationError as error:
        log.warning("cannot read the incidents that the trigger has passed, observing again: %s", error)
        return None
