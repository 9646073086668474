"""One DAG run supervises a stream: who it is, and how it renews and hands over."""

from __future__ import annotations

from datetime import datetime, timedelta

from stateward.contract.reading import as_json
from stateward.contract.storage import delete, write_json
from stateward.contract.stream_control import Supervisor
from stateward.control.reconcile.observe import read_supervisor, supervisor_uri
from stateward.project.layout import Layout

STALE_AFTER = timedelta(seconds=30)
"""Age of a heartbeat after which another DAG run may take over."""

RENEW_EVERY = timedelta(seconds=5)


def other_supervisor(layout: Layout, stream: str, dag_run: str, now: datetime) -> Supervisor | None:
    """Return the live supervisor of a stream if it is another DAG run than `dag_run`."""
    found = read_supervisor(layout, stream)
    if found is None or found.dag_run == dag_run or now - found.at > STALE_AFTER:
        return None
    return found


def claim(layout: Layout, stream: str, dag_run: str, now: datetime) -> Supervisor | None:
    """Become the supervisor, unless another DAG run lives. Call it with the stream's lock held.

    Returns:
        None on success, otherwise the one that lives.
    """
    other = other_supervisor(layout, stream, dag_run, now)
    if other is None:
        _write(layout, stream, dag_run, now)
    return other


def renew(layout: Layout, stream: str, dag_run: str, now: datetime) -> Supervisor | None:
    """Say that `dag_run` still watches, at most once in `RENEW_EVERY`.

    Returns:
        None on success, or the other DAG run that has taken over.
    """
    found = read_supervisor(layout, stream)
    if found is None or found.dag_run != dag_run:
        return claim(layout, stream, dag_run, now)
    if now - found.at > RENEW_EVERY:
        _write(layout, stream, dag_run, now)
    return None


def release(layout: Layout, stream: str, dag_run: str) -> None:
    """Stop being the supervisor, so that the next one need not wait. Harmless when one is not."""
    found = read_supervisor(layout, stream)
    if found is not None and found.dag_run == dag_run:
        delete(supervisor_uri(layout, stream))


def _write(layout: Layout, stream: str, dag_run: str, now: datetime) -> None:
    write_json(supervisor_uri(layout, stream), as_json(Supervisor(dag_run, now, stream)))
