"""The verb ``explain``: a key's state, when and why it will end, and what has become of it batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.contract.process_output import Report
from stateward.rendering.human_units import format_timestamp
from stateward.runtime.api.stream_job import StreamJob
from stateward.state.errors import StateError
from stateward.state.inspection.documents import explanation_document
from stateward.state.inspection.key_report import Entry, HistorySource, KeyReport, PendingTimer, StateChange
from stateward.state.inspection.keyed_history import explain_keyed
from stateward.state.inspection.native_history import explain_native
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import ReadOnly
from stateward.state.pages.page import explanation_page
from stateward.state.reader.key_evaluator import MOST_STEPS, evaluator_of
from stateward.state.reader.retained_batches import (
    Retained,
    is_retained,
    newer_half,
    plans,
    repartitions,
    retained,
)
from stateward.state.reader.stores import stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config

_SHOWN_CHANGES = 20


@dataclass(frozen=True)
class Explanation:
    """What there is to say of a key; times in milliseconds since 1970 UTC.

    Attributes:
        stream: The stream.
        checkpoint_uri: The folder that was read.
        key: The key.
        batch_id: As of which batch.
        first_batch, last_batch: The retained batches.
        planned_ms: When that batch was planned.
        watermark_ms: Its watermark; 0 before the first tick.
        entries: What is kept of the key; nothing if it has no state.
        coming: What will happen to it if no event comes, of a keyed stream whose logic is known.
        bucket_timer_ms: Spark's timer of its bucket: when the bucket is processed next.
        history: What each batch changed, oldest first.
        history_from: The oldest batch, with which the next one is compared; None if nothing was before.
        notes: What the answer rests on, in sentences.
    """

    stream: str
    checkpoint_uri: str
    key: str
    batch_id: int
    first_batch: int
    last_batch: int
    planned_ms: int
    watermark_ms: int
    entries: tuple[Entry, ...]
    coming: tuple[PendingTimer, ...]
    bucket_timer_ms: int | None
    history: tuple[StateChange, ...]
    history_from: int | None
    notes: tuple[str, ...]


class ExplainVerb(ReadOnly):
    """Show a key's state, when and why it will end, and what each batch did to it."""

    name = "explain"

    def apply(self) -> Answer:
        """Look a key up in the current state, or in a savepoint's."""
        context, arguments = self.context, self.context.request.arguments
        found = context.masker.explanation(
            explain(
                context.spark(),
                context.checkpoint(arguments["savepoint"]),
                context.stream,
                arguments["key"],
                job=context.job,
                config=context.request.config,
                batch_id=arguments["batch"],
                report=context.report,
            )
        )
        has = "has a state" if found.entries else "has no state"
        history = [
            (one.batch_id, format_timestamp(one.planned_ms), one.what)
            for one in found.history[-_SHOWN_CHANGES:]
        ]
        return Answer(
            (f"{context.stream}: key {found.key} {has} as of batch {found.batch_id}.", *found.notes),
            (Listing("What became of it", ("batch", "planned at", "what"), history),),
            explanation_document(found),
            whole_page=explanation_page(found),
        )


def explain(
    spark: SparkSession,
    checkpoint_uri: str,
    stream: str,
    key: str,
    *,
    job: AnyJob | None = None,
    config: Config | None = None,
    batch_id: int | None = None,
    report: Report = lambda step, state: None,
) -> Explanation:
    """Explain one key; nothing is written to the checkpoint.

    Args:
        spark: A session; it need not be the one that runs the stream.
        checkpoint_uri: One generation's folder, or a savepoint's copy of one.
        stream: Name of the stream.
        key: The key. For a stream on Spark's own operators, each row with this text in a field of its key.
        job: The stream's declaration. With it and ``config`` what is to come is known of a keyed stream.
        config: Its launch.
        batch_id: As of which retained batch; None for the newest.
        report: Called with each step and its state.

    Raises:
        StateError: There is no such batch, or Spark cannot read its state.
    """
    found = retained(checkpoint_uri, stream, batch_id)
    try:
        return _explained(spark, found, key, job=job, config=config, report=report)
    except StateError:
        if is_retained(found, found.first):
            raise
        report("history", "shortened: the stream runs, and has removed its oldest batches")
        found = newer_half(retained(checkpoint_uri, stream, batch_id))
        return _explained(spark, found, key, job=job, config=config, report=report)


def _explained(
    spark: SparkSession,
    found: Retained,
    key: str,
    *,
    job: AnyJob | None,
    config: Config | None,
    report: Report,
) -> Explanation:
    report("operators", "reading")
    evaluator = evaluator_of(job, config) if isinstance(job, StreamJob) and config is not None else None
    buckets = None if config is None else config.state_buckets
    past = HistorySource(base_batch(found), tuple(feeds(found, repartitions(found))), plans(found))
    all_stores = stores(spark, found.uri)
    parts: list[KeyReport] = []
    for store in all_stores:
        report(f"operator {store.operator_id} {store.name}", "reading")
        if store.is_keyed:
            parts.append(explain_keyed(spark, found, store, key, past, evaluator=evaluator, buckets=buckets))
        else:
            parts.append(explain_native(spark, found, store, key, past))
    is_known = evaluator is not None or not any(store.is_keyed for store in all_stores)
    return _explanation(found, key, parts, is_known)


def _explanation(found: Retained, key: str, parts: list[KeyReport], is_known: bool) -> Explanation:
    entries = tuple(entry for part in parts for entry in part.entries)
    coming = tuple(step for part in parts for step in part.coming)
    return Explanation(
        stream=found.stream,
        checkpoint_uri=found.uri,
        key=key,
        batch_id=found.batch_id,
        first_batch=found.first,
        last_batch=found.last,
        planned_ms=found.planned_ms,
        watermark_ms=found.watermark_ms,
        entries=entries,
        coming=coming,
        bucket_timer_ms=next((part.bucket_timer_ms for part in parts if part.bucket_timer_ms), None),
        history=tuple(sorted((h for part in parts for h in part.history), key=lambda h: h.batch_id)),
        history_from=base_batch(found),
        notes=tuple(_notes(found, entries, coming, is_known)),
    )


def base_batch(found: Retained) -> int | None:
    """The batch whose state the history begins with; None if it begins with the checkpoint itself."""
    return found.first or None


def feeds(found: Retained, without: list[int]) -> list[tuple[int, int]]:
    """First and last batch of the change feeds from the oldest retained batch to the one that is read.

    Args:
        found: The checkpoint and the batch.
        without: Batches that a repartition wrote: they change no state, and Spark has no feed of them.
    """
    spans: list[tuple[int, int]] = []
    for batch in found.batches:
        if batch == base_batch(found) or batch > found.batch_id or batch in without:
            continue
        if spans and spans[-1][1] == batch - 1:
            spans[-1] = spans[-1][0], batch
        else:
            spans.append((batch, batch))
    return spans


def _notes(
    found: Retained, entries: tuple[Entry, ...], coming: tuple[PendingTimer, ...], is_known: bool
) -> list[str]:
    notes = []
    if not entries:
        notes.append(
            f"Nothing is kept of this key as of batch {found.batch_id}: it has never come, or it has ended."
        )
    if not is_known:
        notes.append("Without the stream's declaration and configuration what is to come is not known here.")
    if len(coming) >= MOST_STEPS:
        notes.append(f"Only the first {MOST_STEPS} things to come are shown.")
    if base_batch(found) is not None:
        notes.append(
            f"What was before batch {found.first} is no longer retained: it is the base with which the next "
            "one is compared."
        )
    return notes
