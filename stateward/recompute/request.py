"""The request for a recomputation: one JSON document, which the command writes and the job reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.contract import storage
from stateward.contract.reading import InvalidDocumentError
from stateward.contract.requests import RecomputeRequest, read_request
from stateward.project.project import Project
from stateward.recompute.lookback import Span
from stateward.runtime.api.config import Config
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import StreamJob

Recomputable = StreamJob | NativeJob
"""Streams whose rows depend on one key's events."""


class BackfillError(RuntimeError):
    """The recomputation failed; the text names the stream, what was found, and what to do."""


class Request(RecomputeRequest[Config], frozen=True):
    """One recomputation."""

    @property
    def span(self) -> Span:
        """The requested rows."""
        return Span(self.from_ms, self.to_ms)


def load_request(uri: str) -> Request:
    """Read the document at ``uri``.

    Raises:
        BackfillError: It is not there, of another version, or lacks a field.
    """
    return parse_request(storage.read_json(uri), uri)


def parse_request(document: Mapping[str, Any] | None, origin: str) -> Request:
    """Return the request in a document; errors name ``origin``.

    Raises:
        BackfillError: See `load_request`.
    """
    try:
        return read_request(Request, document, origin, "`stateward backfill` writes a request")
    except InvalidDocumentError as error:
        raise BackfillError(str(error)) from None


def job_of(stream: str) -> Recomputable:
    """Return the declaration of a stream that can be recomputed.

    Raises:
        BackfillError: It has neither logic nor an oracle, or a table without a column for the time of its
            rows.
    """
    job = Project.imported().declaration(stream)
    if not isinstance(job, Recomputable):
        raise BackfillError(
            f"stream {stream}: expected a stream with logic or an oracle, found a {type(job).__name__}. "
            "What it writes cannot be folded from raw events."
        )
    for output in (*job.outputs, *job.optional_outputs):
        if output.table.came_at not in {column.name for column in output.table.columns}:
            raise BackfillError(
                f"stream {stream}, table {output.table.name}: expected came_at to name the column with the "
                f"time at which a row came to be, found {output.table.came_at!r}. Add it to the declaration."
            )
    return job
