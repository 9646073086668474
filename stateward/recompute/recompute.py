"""The recomputation: reads back, folds, writes, and compares if requested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F

from stateward.contract.privacy.forgotten import ForgottenKey, Register
from stateward.contract.process_output import READY, Report
from stateward.contract.reading import iso_ms
from stateward.quality.privacy.masking import secret_of_this_run
from stateward.recompute import raw as raw_records
from stateward.recompute.bucket_recompute import Folding, Found, folded
from stateward.recompute.differences import Comparing
from stateward.recompute.explaining import Explaining
from stateward.recompute.key_recompute import fold_of
from stateward.recompute.lookback import (
    Landed,
    first_look,
    landed_since,
    last_needed,
    not_landed,
    sure_watermark,
)
from stateward.recompute.lookups import gone_explained, looked_up
from stateward.recompute.notes import Basis, notes
from stateward.recompute.reading import Moments, Reading, reading
from stateward.recompute.request import BackfillError, Recomputable, Request
from stateward.recompute.tables import write_table
from stateward.runtime.api.tables import LATE_EVENTS, Table
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.sink.output_rows import KIND_COUNTS
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_RECORDS_PER_BUCKET = 20_000
_MOST_BUCKETS = 8192
_SHOWN = 5


def recompute(spark: SparkSession, request: Request, job: Recomputable, say: Report) -> dict[str, Any]:
    """Recompute a stream's tables, and return the report.

    Raises:
        BackfillError: There is nothing to recompute from, or nothing to compare with.
    """
    _require_tables(request, job)
    say("raw events", "looking at what is landed")
    raw = raw_records.read_raw(spark, request)
    landed = raw_records.landed(raw, request)
    say("raw events", READY)
    look = _Looking(spark, request, job, raw, landed).look(say)
    how = replace(look.how, event=Moments(fold_of(job, request.config, request.chain_ms)))
    explaining = Explaining(look.records, how, job.key.name, Topics(request.config.topics))
    forgotten = forgotten_by_others(Register(request.config.forgotten_uri).keys(), request, job.key.name)
    secret = secret_of_this_run()
    comparing = Comparing(spark, request.span, look.basis.sure, explaining, secret, forgotten)
    tables: list[dict[str, Any]] = []
    for output in job.outputs:
        table = output.table
        uri = f"{request.into_uri}/{table.name}"
        say(table.name, "writing")
        entry: dict[str, Any] = {"table": table.name, "uri": uri, "rows": write_table(look.rows, table, uri)}
        if request.compare:
            say(table.name, "comparing")
            entry |= _compared(comparing, request, table, uri)
        tables.append(entry)
        say(table.name, READY)
    look.rows.unpersist()
    return _report(request, job, look, tables, forgotten)


def forgotten_by_others(keys: Iterable[ForgottenKey], request: Request, field: str) -> frozenset[str]:
    """Return the HMACs of keys whose records are gone, and which the stream itself still has.

    Args:
        keys: The register.
        request: What is recomputed.
        field: The field of its key.
    """
    config = request.config
    of_field = [one for one in keys if one.field == field]
    own = {one.digest for one in of_field if one.stream == config.stream}
    return (
        frozenset(one.digest for one in of_field if any(topic in one.records for topic in config.topics))
        - own
    )


@dataclass(frozen=True)
class _Look:
    """The result of reading the raw events: packed rows, counts, and their limits.

    Attributes:
        records: The records that were read.
        how: How they were read.
        rows: The rows, packed.
    """

    records: DataFrame
    how: Reading
    rows: DataFrame
    found: Found
    basis: Basis


class _Looking:
    """Reads no more than necessary: a part of the past, or all of it if a key was never silent in it."""

    def __init__(
        self,
        spark: SparkSession,
        request: Request,
        job: Recomputable,
        raw: DataFrame,
        landed: dict[int, Landed],
    ) -> None:
        self._spark = spark
        self._request = request
        self._job = job
        self._raw = raw
        self._landed = landed
        checkpoint = Checkpoint(generations.current(request.config.checkpoint_uri).uri)
        topics = Topics(request.config.topics)
        begun = topics.by_slot(checkpoint.initial_offsets())
        last = checkpoint.planned(checkpoint.last_committed())
        self._committed = {} if last is None else topics.by_slot(last.offsets)
        self._watermark_ms = 0 if last is None else last.watermark_ms
        self._sure_ms = sure_watermark(_batches(checkpoint, topics), landed)
        self._cut_ms = landed_since(landed, begun, request.config.max_ahead_ms)

    def look(self, say: Report) -> _Look:
        """Read and fold."""
        since_ms = first_look(self._request.span, self._request.chain_ms)
        if not self._reads_all(since_ms):
            say("events", f"reading from {iso_ms(since_ms)}")
            look = self._from(since_ms)
            if look.basis.is_exact:
                say("events", READY)
                return look
            look.rows.unpersist()
        say("events", "reading all that is landed")
        look = self._from(None)
        say("events", READY)
        return look

    def _reads_all(self, since_ms: int) -> bool:
        """Return whether no older records can be landed."""
        if since_ms <= int(self._request.config.not_before.timestamp() * 1000):
            return True
        oldest_ms = min(one.first_ms for one in self._landed.values())
        cut_ms = self._cut_ms
        reach_ms = since_ms - self._request.config.max_ahead_ms
        return oldest_ms >= reach_ms or (cut_ms is not None and cut_ms >= since_ms)

    def _from(self, since_ms: int | None) -> _Look:
        request, job = self._request, self._job
        known_ms = max((time for time in (since_ms, self._cut_ms) if time is not None), default=None)
        until_ms = last_needed(request.span, request.chain_ms, request.config.longest_lateness_ms)
        count = sum(one.end - one.first for one in self._landed.values())
        buckets = max(request.config.state_buckets, min(_MOST_BUCKETS, count // _RECORDS_PER_BUCKET))
        fold = fold_of(job, request.config, request.chain_ms)
        how = replace(
            reading(request, job, fold, buckets=buckets, since_ms=since_ms, until_ms=until_ms),
            read_to={} if request.with_late else self._committed,
            watermark_ms=self._watermark_ms,
            lookups=looked_up(request, job),
        )
        records = raw_records.wanted(self._spark, self._raw, request, since_ms)
        folding = Folding(fold, job.outputs, request.span, known_ms)
        rows = folded(raw_records.packed_events(records, how), folding).persist(StorageLevel.DISK_ONLY)
        found = Found()
        with gone_explained():
            counted = rows.where(F.col("kind") == KIND_COUNTS).select("data").collect()
        for row in counted:
            found.add(Found.from_json(bytes(row["data"])))
        exact_from_ms = found.exact_from_ms
        if exact_from_ms is not None and known_ms is not None:
            # A key without a read record may still have had a state.
            exact_from_ms = max(exact_from_ms, known_ms + request.chain_ms)
        basis = Basis(
            span=request.span,
            landed=self._landed,
            missing=not_landed(self._landed, self._committed),
            exact_from_ms=exact_from_ms,
            watermark_ms=self._watermark_ms,
            behind_ms=fold.behind_ms,
            sure_ms=self._sure_ms,
            eager=request.config.emission == "eager",
        )
        return _Look(records, how, rows, found, basis)


def _require_tables(request: Request, job: Recomputable) -> None:
    from deltalake import DeltaTable

    config = request.config
    needed = {"raw_events": request.raw_uri}
    if request.compare:
        needed |= {output.table.name: config.tables[output.table.name] for output in job.outputs}
    if not request.with_late:
        needed[LATE_EVENTS.name] = config.tables[LATE_EVENTS.name]
    for name, uri in needed.items():
        if not DeltaTable.is_deltatable(uri):
            remedy = {
                "raw_events": "Start the stream raw_events.",
                LATE_EVENTS.name: "Start the stream, or take --with-late.",
            }.get(name, "Start the stream, or leave out --compare.")
            raise BackfillError(
                f"stream {config.stream}: expected the Delta table {name} at {uri}, found none. {remedy}"
            )


def _batches(checkpoint: Checkpoint, topics: Topics) -> Iterator[tuple[Mapping[int, int], int]]:
    """Yield where the known committed batches end, and their watermarks, the newest first."""
    for batch_id in range(checkpoint.last_committed(), -1, -1):
        batch = checkpoint.planned(batch_id)
        if batch is None:
            return
        yield topics.by_slot(batch.offsets), batch.watermark_ms


def _compared(comparing: Comparing, request: Request, table: Table, uri: str) -> dict[str, Any]:
    from deltalake import DeltaTable

    into = f"{request.into_uri}/differences/{table.name}"
    found = comparing.compare(table, live_uri=request.config.tables[table.name], uri=uri, into=into)
    version = DeltaTable(into).version()
    where = {"differences_uri": into, "differences_version": version}
    return {"equal": found.is_none, **where, **asdict(found)}


def _report(
    request: Request,
    job: Recomputable,
    look: _Look,
    tables: list[dict[str, Any]],
    forgotten: Collection[str],
) -> dict[str, Any]:
    exact_from_ms, sure = look.basis.exact_from_ms, look.basis.sure
    return {
        "version": 1,
        "stream": request.config.stream,
        "from": iso_ms(request.span.from_ms),
        "to": iso_ms(request.span.to_ms),
        "exact": look.basis.is_exact,
        "exact_from": None if look.basis.is_exact or exact_from_ms is None else iso_ms(exact_from_ms),
        "sure": None if sure is None else {"from": iso_ms(sure.from_ms), "to": iso_ms(sure.to_ms)},
        "counts": dict(look.found.counts),
        "tables": tables,
        "equal": all(entry["equal"] for entry in tables) if request.compare else None,
        "notes": [*notes(request, job, look.found, look.basis), *_forgotten(forgotten)],
    }


def _forgotten(digests: Collection[str]) -> list[str]:
    if not digests:
        return []
    shown = ", ".join(sorted(digest[:12] for digest in digests)[:_SHOWN])
    return [
        f"{len(digests)} keys are not compared, because another stream has forgotten them and their "
        "records are "
        f"gone (HMAC {shown}). Forget them for this stream as well."
    ]
