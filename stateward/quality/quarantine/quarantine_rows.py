"""From the outcomes of a validation to the rows in quarantine, each with where it came from."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stateward.contract.names import QUARANTINE, RAW_EVENTS
from stateward.project.project import Project
from stateward.quality.privacy.personal import outputs_of
from stateward.quality.quarantine.batch_offsets import BatchOffsets
from stateward.quality.quarantine.event_search import EventSearch, own_records
from stateward.quality.quarantine.provenance import EventsOf, Origins
from stateward.quality.quarantine.quarantine import Facts, Failure, write_failures
from stateward.runtime.api.config import ConfigError, load_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateward.quality.privacy.masked_frames import Privacy
    from stateward.quality.quarantine.failing_rows import Validated
    from stateward.quality.validation.frames import Frames
    from stateward.runtime.api.config import Config

_RECORD = {"topic", "partition", "offset"}

log = logging.getLogger("stateward.quality")


def write_quarantine(done: Validated, privacy: Privacy, results_uri: str) -> None:
    """Put the rows that break expectations into quarantine.

    Call it before the validation is recorded: a validation that dies in between then holds back too many
    rows, until the next one of its versions, and never too few.

    Args:
        done: the validation, with its rows as they are.
        privacy: how they are masked.
        results_uri: the table `quality_results`, beside which the quarantine lies.
    """
    frames, validation = done.frames, done.validation
    failed = [outcome for outcome in done.outcomes if not outcome.success]
    for outcome in failed:
        # Queries name views, which still show masked rows.
        frames.resolve(outcome.expectation)
    tables_uri = results_uri.rstrip("/").rpartition("/")[0]
    facts = Facts(
        stream=validation.stream,
        table=validation.table,
        table_id=validation.table_id,
        from_version=validation.from_version if frames.is_range else 0,
        version=validation.version,
        run_id=validation.run_id,
        suite=validation.suite,
        validated_at=validation.validated_at,
        personal=privacy.personal,
    )
    failures = [
        Failure(
            name=outcome.expectation.name,
            expectation=outcome.expectation.type,
            severity=outcome.expectation.severity,
            rows=done.breaking_frame(outcome),
        )
        for outcome in failed
    ]
    origins = _origins_of(validation.stream, validation.table, tables_uri.rpartition("/")[0], frames)
    write_failures(
        f"{tables_uri}/{QUARANTINE}", facts, failures, frames.table, masker=privacy.masker, origins=origins
    )


def _origins_of(stream: str, table: str, data_uri: str, frames: Frames) -> Origins:
    """Return what finds where rows of a table came from.

    Args:
        stream: the stream that writes it.
        table: its name.
        data_uri: under which tables, checkpoints and configurations lie.
        frames: what was validated.
    """
    data = data_uri.rstrip("/")
    config = _config(f"{data}/control/{stream}.config.json")
    root = config.checkpoint_uri if config else f"{data}/checkpoints/{stream}"
    batches = BatchOffsets(root, config.topics if config else None)
    if set(frames.table.columns) >= _RECORD:
        events: EventsOf = own_records
    else:
        events = _search(frames.spark, stream, config, f"{data}/tables/{RAW_EVENTS}")
    return Origins(frames.span.uri, table, frames.commits, batches, events)


def _config(uri: str) -> Config | None:
    try:
        return load_config(uri)
    except ConfigError:
        # The stream was never started here.
        return None


def _search(spark: SparkSession, stream: str, config: Config | None, raw_uri: str) -> EventsOf:
    from deltalake import DeltaTable

    if config is None or not outputs_of(stream) or not DeltaTable.is_deltatable(raw_uri):
        return lambda rows: {}
    job = Project.imported().declaration(stream)
    if not hasattr(job, "key"):
        return lambda rows: {}
    search = EventSearch(spark, raw_uri, config, job)

    def events(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        try:
            return search(rows)
        except Exception as error:
            # Rows must be held back nevertheless. The text of the error may hold values of theirs.
            log.warning("%s: events of failing rows could not be looked up: %s", stream, type(error).__name__)
            return {}

    return events
