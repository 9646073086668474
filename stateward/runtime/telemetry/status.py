"""Writes ``status/<stream>.json``, the actual state, which the control plane reads."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from stateward.contract import storage
from stateward.contract.process_identity import ProcessIdentity
from stateward.contract.reading import as_json, iso
from stateward.contract.stream_status import Status

HEARTBEAT_S = 1.0
Watch = Callable[[dict[str, Any], datetime], Mapping[str, Any] | None]

_LOG = logging.getLogger(__name__)


class StatusFile:
    """The status of one launch. Every change is written at once; a heartbeat keeps ``updated_at`` current.

    Args:
        uri: The file.
        stream: Name of the stream.
        run_id: The launch.
        process: The process to signal.
        python_pid: This process.
        clock: The time, aware.
    """

    def __init__(
        self,
        uri: str,
        *,
        stream: str,
        run_id: str,
        process: ProcessIdentity,
        python_pid: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._uri = uri
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        started = clock()
        status = Status(
            stream,
            run_id,
            "starting",
            started,
            started,
            host=process.host,
            pid=process.pid,
            pid_started=process.pid_started,
            python_pid=python_pid,
        )
        # The next driver continues with the sizes, also when this one ends before it has read the state.
        self._document = as_json(status) | {"started_at": iso(started), "buckets": _last_buckets(uri)}

    def shows(self, state: str, message: str) -> bool:
        """Whether the document has this state and this message."""
        return (self._document["state"], self._document["message"]) == (state, message)

    def enter(self, phase: str, **fields: Any) -> None:
        """Report the next phase of the start, which restarts a deadline of the control plane, and fields."""
        self.update(phase=phase, phase_at=iso(self._clock()), **fields)

    def update(self, **fields: Any) -> None:
        """Change fields and write the file; after a failure the heartbeat tries again.

        A full disk or an unavailable storage must not stop the stream; the age of the file shows it.

        Raises:
            TypeError: The contract has no such field.
        """
        if unknown := fields.keys() - self._document.keys():
            raise TypeError(f"expected fields of a status, found {', '.join(sorted(unknown))}")
        with self._lock:
            self._document.update(fields)
            try:
                self._write()
            except OSError as error:
                _LOG.warning("status %s could not be written: %s", self._uri, error)

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the document."""
        with self._lock:
            return dict(self._document)

    def start_heartbeat(self, watch: Watch | None = None) -> None:
        """Write the file every second until `stop_heartbeat`.

        Args:
            watch: Receives the document and the time after each write, and returns fields to change.
        """
        self._thread = threading.Thread(target=self._beat, args=(watch,), name="status", daemon=True)
        self._thread.start()

    def stop_heartbeat(self) -> None:
        """Stop the heartbeat; the file stays."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self, watch: Watch | None) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            try:
                self.update()
                if watch is not None and (fields := watch(self.document, self._clock())):
                    self.update(**fields)
            except Exception:
                _LOG.exception("status %s could not be written", self._uri)

    def _write(self) -> None:
        self._document["updated_at"] = iso(self._clock())
        storage.write_passing(self._uri, json.dumps(self._document, separators=(",", ":")))


def _last_buckets(uri: str) -> object:
    """``buckets`` of the status that this one replaces, or None."""
    try:
        return (storage.read_json(uri) or {}).get("buckets")
    except (OSError, ValueError):
        return None
