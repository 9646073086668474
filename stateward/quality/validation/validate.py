"""Validate Delta tables of a stream over a range of their versions, as a Spark job.

    spark-submit stateward/quality/validation/validate.py --stream NAME
        --table NAME --table-uri URI --suite-file FILE [--table NAME --table-uri URI --suite-file FILE ...]
        --results-uri URI --docs-uri URI --run-id ID [--from-version N] [--to-version N] [--queue FOLDER]

The tables are validated one after the other; when a validation fails, the others are made nevertheless.
Without a range, which only one table can have, it covers the versions that no validation has covered yet,
according to `quality_validations` beside the results. Afterwards the job takes commands like its own from a
queue, for three minutes from its start.

Exit codes, of its own tables: 0 every critical expectation holds, 2 at least one fails, 1 a validation itself
failed.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, whose modules would hide others of the same name.
    del sys.path[0]

from stateward.contract.job_queue import JobQueue
from stateward.contract.process_output import JobExit
from stateward.quality.privacy.personal import declared_table
from stateward.quality.quarantine.failing_rows import Validated
from stateward.quality.suites.baseline import BaselineBounds, PastValidation, baseline_bounds
from stateward.quality.suites.suite import Suite, SuiteError, load_suite
from stateward.quality.tables.version_range import Pin, ValidationError
from stateward.quality.validation import results
from stateward.quality.validation.records import Records, Validation
from stateward.quality.validation.report_folders import report_folders
from stateward.quality.validation.request import Request, parse_requests
from stateward.quality.validation.validation_inputs import ValidationInputs, find_inputs
from stateward.quality.validation.validation_session import session_of, validating

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from stateward.quality.validation.expectations import Outcome, Prepared
    from stateward.quality.validation.frames import Frames

_MAX_RUN_NAME = 120
# The task that started the job waits for its end, and so do the later tasks of its run.
_TAKES_FOR_S = 180

log = logging.getLogger("stateward.quality")


def validate(
    session: Callable[[], SparkSession], request: Request, now: datetime | None = None
) -> list[Outcome]:
    """Validate the table, write the results and the Data Docs page.

    Args:
        session: starts Spark, or returns the running session; called once the request has been checked.
        request: what to validate and where to put the results.
        now: the time, UTC; None for the current time.

    Returns:
        One outcome per expectation, in the suite's order.

    Raises:
        SuiteError: the suite cannot be used.
        ValidationError: the table or its version does not exist.
    """
    declared = declared_table(request.stream, request.table)
    suite = load_suite(request.suite_file, declared, table=request.table)
    return list(_validate(session, request, suite, now or datetime.now(UTC)).outcomes)


def _validate(
    session: Callable[[], SparkSession], request: Request, suite: Suite, now: datetime
) -> Validated:
    records = Records(request.validations_uri, request.stream, request.table)
    asked = (request.from_version, request.to_version)
    inputs = find_inputs(suite, records, request.table_uri, asked, now)
    span = inputs.span
    log.info("%s: validating %s, versions %d to %d", request.stream, span.uri, span.first, span.last)
    spark = session()
    with validating(spark, (Pin(span.uri, span.table_id, span.last), *inputs.others.values())):
        return _evaluated(spark, request, suite, inputs, records=records, now=now)


def _evaluated(
    spark: SparkSession,
    request: Request,
    suite: Suite,
    inputs: ValidationInputs,
    *,
    records: Records,
    now: datetime,
) -> Validated:
    from stateward.quality.privacy.masked_frames import privacy_of
    from stateward.quality.quarantine.quarantine_rows import write_quarantine
    from stateward.quality.validation.frames import open_frames

    stream = request.stream
    frames = open_frames(spark, stream, suite, inputs.span, as_of=inputs.as_of, others=inputs.others)
    privacy = privacy_of(spark, suite, stream, frames)
    shown = privacy.shown(frames)
    baseline = _baseline(suite, inputs, frames)
    outcomes, docs_path = _run(request, suite, shown, baseline, now)
    validation = _judged(request, suite, inputs, frames, baseline=baseline, now=now)
    done = Validated(validation, tuple(outcomes), frames)
    seen = replace(done, frames=shown)
    sampled = [(outcome, results.sample_of(seen.breaking_frame(outcome))) for outcome in outcomes]
    write_quarantine(done, privacy, request.results_uri)
    results.write_results(request.results_uri, validation, sampled, docs_path, privacy.personal)
    # Last, because its row marks these versions as validated and links to their page.
    records.write(validation, outcomes, docs_path)
    return done


def _judged(
    request: Request,
    suite: Suite,
    inputs: ValidationInputs,
    frames: Frames,
    *,
    baseline: dict[str, BaselineBounds],
    now: datetime,
) -> Validation:
    return Validation(
        stream=request.stream,
        table=request.table,
        table_id=inputs.span.table_id,
        from_version=inputs.span.first,
        version=inputs.span.last,
        run_id=request.run_id,
        suite=suite.name,
        suite_digest=suite.digest,
        as_of=inputs.as_of,
        validated_at=now,
        is_range=frames.is_range,
        rows=frames.row_count,
        table_rows=frames.table_row_count,
        seconds=frames.seconds,
        reads=inputs.others,
        baseline=baseline,
        repeats=inputs.repeats,
    )


def _baseline(suite: Suite, inputs: ValidationInputs, frames: Frames) -> dict[str, BaselineBounds]:
    now = PastValidation(inputs.span.last, passed=True, rows=frames.row_count, seconds=frames.seconds)
    return {
        one.name: inputs.then.get(one.name)
        or baseline_bounds(one.name, one.baseline, one.kwargs, now, inputs.earlier)
        for one in suite.expectations
        if one.baseline is not None
    }


def prepare(
    suite: Suite, frames: Frames, baseline: dict[str, BaselineBounds]
) -> tuple[list[Prepared], dict[str, DataFrame]]:
    """Return the expectations as they are evaluated, and the rows they are evaluated on."""
    from stateward.quality.validation.expectations import Prepared

    prepared: list[Prepared] = []
    rows: dict[str, DataFrame] = {}
    for one in suite.expectations:
        name, frame = frames.of(one)
        rows.setdefault(name, frame)
        if bounds := baseline.get(one.name):
            prepared.append(Prepared(one, bounds.type, bounds.kwargs, name, bounds.words))
        else:
            prepared.append(Prepared(one, one.type, frames.resolve(one), name))
    return prepared, rows


def _run(
    request: Request, suite: Suite, frames: Frames, baseline: dict[str, BaselineBounds], now: datetime
) -> tuple[list[Outcome], str]:
    from stateward.quality.validation.expectations import Validator

    span = frames.span
    run_name = f"{request.stream}_v{span.first}-{span.last}_{request.run_id}"
    run_name = re.sub(r"[^A-Za-z0-9._-]+", "_", run_name)[:_MAX_RUN_NAME]
    prepared, rows = prepare(suite, frames, baseline)
    label = f"{request.table}_v{span.first}-{span.last}"
    with report_folders(request.docs_uri) as folders:
        validator = Validator(folders.context_dir, folders.docs_dir)
        done = validator.run(suite, prepared, rows, label=label, run_name=run_name, run_time=now)
        folders.publish(validator.build_pages)
    return done


def main(argv: list[str]) -> int:
    """Run the job and return its exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    log.setLevel(logging.INFO)
    until = time.monotonic() + _TAKES_FOR_S
    requests, queue = parse_requests(argv)
    session = cache(session_of(requests[0].stream))
    ends = [_logged(session, request) for request in requests]
    while queue and time.monotonic() < until and _took_one(session, JobQueue(queue)):
        pass
    # The technical failure first: the caller finds failed expectations in the results.
    return next((end for end in (JobExit.FAILED, JobExit.DIFFERENT) if end in ends), JobExit.DONE)


def _took_one(session: Callable[[], SparkSession], queue: JobQueue) -> bool:
    """Make the validations of the next command in the queue; whoever put it there reads their results."""
    try:
        with queue.take() as argv:
            for request in parse_requests(argv)[0] if argv else ():
                _logged(session, request)
            return argv is not None
    except (ValueError, SystemExit) as error:
        log.error("%s: expected the arguments of a validation, found others: %s", queue.folder, error)
        return True


def _logged(session: Callable[[], SparkSession], request: Request) -> JobExit:
    """Validate one table; log what its validation has found, or why it failed."""
    about = f"{request.stream}: {request.table}"
    try:
        outcomes = validate(session, request)
    except (SuiteError, ValidationError) as error:
        log.error("%s: %s", about, error)
        return JobExit.FAILED
    except Exception:
        log.exception("%s: the validation failed", about)
        return JobExit.FAILED
    failed = [outcome for outcome in outcomes if not outcome.success]
    for outcome in failed:
        name, severity = outcome.expectation.name, outcome.expectation.severity
        log.warning("FAILED %s (%s): %s", name, severity, outcome.observed)
    log.info("%s: %d of %d expectations hold", about, len(outcomes) - len(failed), len(outcomes))
    is_critical = any(outcome.expectation.severity == "critical" for outcome in failed)
    return JobExit.DIFFERENT if is_critical else JobExit.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
