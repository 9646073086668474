"""Writes ``status/<stream>.history.jsonl``: the last day of a stream, one line per minute.

The status has only the present. Charts and lists of failures need the past as well, including that of killed
drivers, so every driver continues the file of the previous one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import structs

from stateward.contract import storage
from stateward.contract.reading import as_json
from stateward.runtime.driver.control import LaunchReason
from stateward.runtime.telemetry.growth import growth

KEPT = timedelta(hours=24)
EVERY = timedelta(seconds=60)

_LOG = logging.getLogger(__name__)
# With an unstable broker the state may change at every poll.
_CHANGES_APART = timedelta(seconds=5)
_MOST_LINES = 4_000
_LONGEST_MESSAGE = 500
_Line = tuple[datetime, str]
_MEASURES = (
    "batch_id",
    "batch_duration_ms",
    "watermark",
    "lag_records",
    "state_rows",
    "state_bytes",
    "delivered",
    "generation",
    "state_keys",
    "live_bytes",
)


class History:
    """The history of a stream's last day.

    The file is replaced as a whole, so that readers never see partial lines, also on an object store. It
    stays small: 24 hours, at most 4,000 lines.

    Args:
        uri: The file.
        reason: Why this driver was launched.
        may_write: Raises if this driver may no longer write.
        window: Over which the growth of the state is computed.
    """

    def __init__(
        self,
        uri: str,
        *,
        reason: LaunchReason,
        may_write: Callable[[], object],
        window: timedelta = timedelta(hours=1),
    ) -> None:
        self._window = window
        self._uri = uri
        self._reason = reason
        self._may_write = may_write
        self._kept: list[_Line] | None = None
        self._new: list[_Line] = []
        self._last: tuple[datetime, str] | None = None

    def note(self, status: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """Add the status: one line per minute, and one when the state has changed.

        A failed write never stops the stream: missing lines are written with the next one.

        Args:
            status: The document ``status/<stream>.json``.
            now: The time, aware.

        Returns:
            Status fields that follow from the history; empty if there was no new line.
        """
        if not self._is_due(str(status["state"]), now):
            return {}
        self._add(status, now)
        return growth([*(self._kept or []), *self._new], now, self._window)

    def end(self, status: Mapping[str, Any], now: datetime) -> None:
        """Write the last line of this driver, while it still holds the lease."""
        self._add(status, now)

    def _is_due(self, state: str, now: datetime) -> bool:
        if self._last is None:
            return True
        at, before = self._last
        # After the clock was set back, lines must not be missing until it has caught up.
        return now < at or now - at >= (EVERY if state == before else _CHANGES_APART)

    def _add(self, status: Mapping[str, Any], now: datetime) -> None:
        self._new.append((now, line_of(status, now, self._reason if self._last is None else None)))
        # Set before the write, so that the next try after a failure is in a minute and not in a second.
        self._last = (now, str(status["state"]))
        try:
            self._may_write()
            kept = _read(self._uri) if self._kept is None else self._kept
            lines = [line for line in [*kept, *self._new] if now - line[0] < KEPT][-_MOST_LINES:]
            storage.write_passing(self._uri, "".join(f"{text}\n" for _, text in lines))
        except Exception as error:
            _LOG.warning("history %s could not be written, trying again in a minute: %s", self._uri, error)
            del self._new[:-_MOST_LINES]
        else:
            self._kept, self._new = lines, []


def history_uri(status_uri: str) -> str:
    """The history file of a status file."""
    return f"{status_uri.removesuffix('.json')}.history.jsonl"


def line_of(status: Mapping[str, Any], now: datetime, reason: LaunchReason | None = None) -> str:
    """The history line of a status.

    Args:
        status: The document ``status/<stream>.json``.
        now: The time, aware.
        reason: Why the driver was launched, if this is its first line.
    """
    at = now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    sentence, failure = (reason.sentence, reason.failure) if reason else ("", None)
    line = {
        "at": at,
        "run_id": status["run_id"],
        "state": status["state"],
        "launched": sentence[:_LONGEST_MESSAGE],
        "failure": failure and as_json(structs.replace(failure, cause=failure.cause[:_LONGEST_MESSAGE])),
        "message": str(status.get("message") or "")[:_LONGEST_MESSAGE],
        **{name: status.get(name) for name in _MEASURES},
    }
    return json.dumps({name: value for name, value in line.items() if value not in (None, "")})


def _read(uri: str) -> list[_Line]:
    """Read the lines; unreadable ones are skipped, and the next write removes them."""
    lines = []
    for text in (storage.read_text(uri) or "").splitlines():
        try:
            at = datetime.fromisoformat(json.loads(text)["at"])
            if at.tzinfo is not None:
                lines.append((at, text))
        except (ValueError, KeyError, TypeError):
            continue
    return lines
