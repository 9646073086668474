"""The removal of a stream: all that a start would continue from, so that the stream is as never started.

The control document goes last. It has a hold of the removal until then, so that nothing starts the stream,
and the next removal continues one that was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from stateward.contract.lease import history_uri, read_lease
from stateward.contract.names import SHARED_TABLES
from stateward.contract.process_identity import host_identity
from stateward.contract.reading import as_json
from stateward.contract.storage import delete, exists, list_names, write_json
from stateward.contract.stream_control import Hold
from stateward.contract.stream_status import ENDED
from stateward.control.launchers.driver_exit import Presence
from stateward.control.reconcile.executor import locked
from stateward.control.reconcile.observe import observe
from stateward.project.layout import Layout
from stateward.project.spec import StreamSpec

_WHY = "remove"


class RemovalError(RuntimeError):
    """The stream may not be removed now; nothing was."""


@dataclass(frozen=True)
class Part:
    """Something of a stream that lies in one place.

    Attributes:
        what: What it is.
        uri: A file, or a folder with everything in it.
    """

    what: str
    uri: str


def parts_of(spec: StreamSpec, layout: Layout, others: Sequence[StreamSpec], *, tables: bool) -> list[Part]:
    """Return what is there to be removed, in the order in which it is.

    Args:
        spec: The stream.
        layout: Where everything is.
        others: The other streams; a table that one of them writes too stays.
        tables: Whether its own tables are removed as well.

    Raises:
        OSError: The storage cannot be read.
    """
    own = own_tables(spec, others) if tables else []
    wanted = [*(Part(f"table {name}", layout.table_uri(name)) for name in own), *_places(spec.stream, layout)]
    return [part for part in wanted if exists(part.uri)]


def own_tables(spec: StreamSpec, others: Sequence[StreamSpec]) -> list[str]:
    """Return the tables that no other stream writes."""
    return [name for name in spec.tables if not any(name in other.tables for other in others)]


def kept_of(spec: StreamSpec, layout: Layout, others: Sequence[StreamSpec], *, tables: bool) -> list[str]:
    """Return what stays, as text for people."""
    removed = own_tables(spec, others) if tables else []
    stays = [name for name in spec.tables if name not in removed and exists(layout.table_uri(name))]
    register = [f"the register of forgotten keys, {layout.forgotten_uri}"]
    return [
        *(f"table {name}, {layout.table_uri(name)}; a new start adds rows to it" for name in stays),
        f"its rows in {', '.join(SHARED_TABLES)} and in the tables of data quality",
        *(register if exists(layout.forgotten_uri) else []),
        f"the logs of its drivers, {layout.driver_log_dir(spec.stream)}",
        "its YAML and its code",
    ]


def require_at_rest(layout: Layout, stream: str, now: datetime) -> None:
    """Require that nothing runs on the stream's state.

    Raises:
        RemovalError: The stream should run, its driver is there, or an operation is at work.
        InvalidDocumentError: The control document cannot be read.
    """
    if reason := _obstacle(layout, stream, now):
        raise RemovalError(f"stream {stream}: expected nothing to run on its state, found {reason}")


def remove(parts: Sequence[Part], layout: Layout, stream: str, by: str, now: datetime) -> Iterator[Part]:
    """Remove parts one by one, and yield each after it is gone.

    Args:
        parts: What `parts_of` has found.
        layout: Where everything is.
        stream: The stream.
        by: The DAG run, `<dag id>/<run id>`.
        now: The time, aware.

    Raises:
        RemovalError: See `require_at_rest`.
        OSError: Something cannot be removed; what comes after it is still there.
    """
    with locked(layout, stream):
        require_at_rest(layout, stream, now)
        control = observe(layout, stream).control
        if control is not None:
            held = replace(control, hold=Hold(by, _WHY, now))
            write_json(layout.control_uri(stream), as_json(held))
    for part in parts:
        delete(part.uri)
        yield part


def _obstacle(layout: Layout, stream: str, now: datetime) -> str:
    seen = observe(layout, stream)
    control, status = seen.control, seen.own_status
    if control is not None and control.desired == "running":
        return f"that it is desired running. Stop it first: `stateward stop {stream}`."
    if control is not None and control.hold is not None and control.hold.why != _WHY:
        return f"that it is {control.hold}. Wait for the end of that operation."
    has_ended = status is not None and status.state in ENDED
    if seen.driver is Presence.ALIVE or (seen.driver is Presence.ELSEWHERE and not has_ended):
        return (
            "that its driver has not ended yet. Wait until `stateward status` shows that it is stopped. If"
            " the driver's host is gone, start and stop the stream once more."
        )
    lease = read_lease(layout.lease_uri(stream))
    if lease is not None and lease.holds(now, host_identity()):
        return f"that run {lease.run_id} holds its lease. Wait for its end (`stateward lease {stream}`)."
    return ""


def _places(stream: str, layout: Layout) -> Iterator[Part]:
    yield Part("checkpoints", layout.checkpoint_uri(stream))
    yield Part("savepoints", layout.savepoints_uri(stream))
    yield Part("local copy of its state", f"file://{layout.cache_dir(stream)}")
    yield Part("operations on its state", layout.operation_uri(stream, "").rstrip("/"))
    yield Part("last reconciliation", layout.reconciliation_uri(stream))
    yield Part("releases", f"{layout.releases_uri}/{stream}")
    yield Part("releases on this host", f"file://{layout.releases_dir / stream}")
    yield Part("status", layout.status_uri(stream))
    yield Part("history", layout.history_uri(stream))
    lease = layout.lease_uri(stream)
    yield Part("lease", lease)
    yield Part("history of the lease", history_uri(lease))
    control = layout.control_uri(stream)
    folder, _, name = control.rpartition("/")
    documents = sorted(found for found in list_names(folder) if found.startswith(f"{stream}."))
    yield from (Part("document", f"{folder}/{found}") for found in documents if found != name)
    yield Part("desired state", control)
