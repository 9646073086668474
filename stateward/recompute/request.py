"""What is to be recomputed: one JSON document, which the command writes and the job reads."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateward.contract import storage
from stateward.recompute.lookback import Span
from stateward.recompute.record import Record
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import StreamJob

VERSION = 1

Recomputable = StreamJob | NativeJob
"""Streams of which a row is a matter of one key's events."""


class BackfillError(RuntimeError):
    """The recomputation could not be done; the text names the stream, what was found, and what to do."""


@dataclass(frozen=True)
class Request:
    """One recomputation.

    Attributes:
        config: The stream, as a driver would be started now.
        span: Which rows.
        chain_ms: The stream's longest chain of timeouts.
        raw_uri: The table ``raw_events``.
        into_uri: Folder of the recomputed tables.
        report_uri: Where the report goes.
        with_late: Whether events count that came too late for the stream.
        compare: Whether to compare with the live tables.
        record: Where the outcome of the comparison is kept; None if it is not.
    """

    config: Config
    span: Span
    chain_ms: int
    raw_uri: str
    into_uri: str
    report_uri: str
    with_late: bool
    compare: bool
    record: Record | None = None


def load_request(uri: str) -> Request:
    """Read the document at ``uri``.

    Raises:
        BackfillError: It is not there, or of another version.
        ConfigError: The stream's configuration in it is not sound.
    """
    document = storage.read_json(uri)
    if document is None or document.get("version") != VERSION:
        found = "nothing" if document is None else f"version {document.get('version')!r}"
        raise BackfillError(
            f"{uri}: expected a request of version {VERSION}, found {found}; `stateward backfill` writes it"
        )
    return parse_request(document, uri)


def parse_request(document: Mapping[str, Any], origin: str) -> Request:
    """The request in a document; ``origin`` is named in errors."""
    return Request(
        config=parse_config(document["config"], origin),
        span=Span(document["from_ms"], document["to_ms"]),
        chain_ms=document["chain_ms"],
        raw_uri=document["raw_uri"],
        into_uri=document["into_uri"],
        report_uri=document["report_uri"],
        with_late=document["with_late"],
        compare=document["compare"],
        record=Record(**document["record"]) if document.get("record") else None,
    )


def job_of(stream: str) -> Recomputable:
    """The declaration of a stream that can be recomputed.

    Raises:
        BackfillError: It has neither logic nor an oracle, or a table that does not say when its rows came to
            be.
    """
    job: Any = importlib.import_module(f"spark_jobs.{stream}.declaration").JOB
    if not isinstance(job, Recomputable):
        raise BackfillError(
            f"stream {stream}: expected a stream with logic or an oracle, found a {type(job).__name__}. "
            "What it writes cannot be folded from raw events."
        )
    for output in job.outputs:
        if output.table.came_at not in {column.name for column in output.table.columns}:
            raise BackfillError(
                f"stream {stream}, table {output.table.name}: expected came_at to name the column with the "
                f"time at which a row came to be, found {output.table.came_at!r}. Add it to the declaration."
            )
    return job
