"""`control/<stream>.incidents.json`: the incidents that are open, and the messages that are to be sent."""

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
    """Return where the document lies."""
    return layout.control_uri(stream).removesuffix(".json") + ".incidents.json"


def to_json(incidents: IncidentDocument) -> dict[str, Any]:
    """Write the document."""
    document: dict[str, Any] = _ADAPTER.dump_python(incidents, mode="json")
    return {"version": 1, **document}


def from_json(document: Mapping[str, Any]) -> IncidentDocument:
    """Read the document.

    Raises:
        ValidationError: It is not one.
    """
    return _ADAPTER.validate_python({**document})


def read_incidents(layout: Layout, stream: str) -> IncidentDocument:
    """Read the document; an empty one when there is none, or nothing readable.

    Raises:
        OSError: The storage cannot be read.
    """
    uri = incidents_uri(layout, stream)
    try:
        document = read_json(uri)
        return IncidentDocument(stream) if document is None else from_json(document)
    except (CorruptDocumentError, ValidationError) as error:
        # Better told twice than not at all.
        log.warning("stream %s: cannot read its incidents, and begins anew: %s", stream, error)
        return IncidentDocument(stream)


def change_incidents(
    layout: Layout, stream: str, change: Callable[[IncidentDocument], IncidentDocument]
) -> IncidentDocument:
    """Change the document, one process of this machine at a time.

    Returns:
        The document as it is then.

    Raises:
        OSError: The storage cannot be read or written.
        TimeoutError: Someone else has held the stream's lock for minutes.
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
    """What a trigger has seen, on its way to the task that writes it down.

    Attributes:
        revision: Of the document that it began with; another one means that this is out of date.
        memory: What has become of it.
        messages: What is to be told.
    """

    revision: int
    memory: IncidentState
    messages: tuple[Message, ...] = ()


_CARRIED = TypeAdapter(CarriedIncidents)


def carried_to_json(carried: CarriedIncidents) -> dict[str, Any]:
    """Write it as plain values, for Airflow's database."""
    document: dict[str, Any] = _CARRIED.dump_python(carried, mode="json")
    return document


def carried_from_json(document: Mapping[str, Any] | None) -> CarriedIncidents | None:
    """Read what `carried_to_json` wrote; None when it is of another release, or there is none."""
    try:
        return None if document is None else _CARRIED.validate_python({**document})
    except ValidationError as error:
        log.warning(
            "what the trigger has seen of incidents cannot be read, and is looked at again: %s", error
        )
        return None
