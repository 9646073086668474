"""Validate one Delta table at one version, as a Spark job.

    spark-submit spark_jobs/quality/validate.py --table-uri URI --table NAME --stream NAME --suite-file FILE
        --results-uri URI --docs-dir DIR --run-id ID [--version N]

Exit codes: 0 every expectation holds, 2 at least one fails, 1 the validation itself failed.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import re
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, not the checkout.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from filelock import FileLock

from spark_jobs.quality import results
from spark_jobs.quality.suite import Suite, SuiteError, load_suite
from spark_jobs.quality.validated import Validated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.quality.expectations import Outcome

PASSED, ERROR, FAILED = 0, 1, 2
_LOCK_TIMEOUT_S = 120
_MAX_RUN_NAME = 120

log = logging.getLogger("stateward.quality")


class ValidationError(RuntimeError):
    """The validation could not be done; the text names the stream, what was found, and what to do."""


@dataclass(frozen=True)
class Request:
    """What to validate and where to put the results.

    Attributes:
        version: Delta version to read; None is the latest when the job starts.
        docs_dir: folder of the static Data Docs. The validator's own files lie beside it, in `gx/`.
    """

    table_uri: str
    table: str
    stream: str
    version: int | None
    suite_file: Path
    results_uri: str
    docs_dir: Path
    run_id: str


def parse_request(argv: list[str]) -> Request:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table-uri", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--version", type=_version, default=None, help="a number, or `latest` (default)")
    parser.add_argument("--suite-file", required=True, type=Path)
    parser.add_argument("--results-uri", required=True)
    parser.add_argument("--docs-dir", required=True, type=_local_folder)
    parser.add_argument("--run-id", required=True)
    return Request(**vars(parser.parse_args(argv)))


def _version(text: str) -> int | None:
    return None if text in ("latest", "", "None") else int(text)


def _local_folder(text: str) -> Path:
    path = text.removeprefix("file://")
    if "://" in path:
        raise argparse.ArgumentTypeError(f"Data Docs are static files: give a mounted folder, not {text}")
    return Path(path)


def validate(session: Callable[[], SparkSession], request: Request) -> list[Outcome]:
    """Validate the table, write the results and the Data Docs page.

    Args:
        session: starts Spark, or returns the session there is; called once the request is known to be sound.
        request: what to validate and where to put the results.

    Returns:
        One outcome per expectation, in the suite's order.

    Raises:
        SuiteError: the suite cannot be used.
        ValidationError: the table or its version does not exist.
    """
    suite = load_suite(request.suite_file)
    if suite.table != request.table:
        raise ValidationError(
            f"{request.stream}: suite {suite.name} is for table {suite.table}, not {request.table}."
            " Correct quality.suite in the stream's YAML."
        )
    pinned = pin(request)
    log.info("%s: validating %s at version %d", request.stream, pinned.uri, pinned.version)
    now = datetime.now(UTC)
    frame = read(session(), request, pinned)
    outcomes, docs_path = _run(request, suite, frame, pinned.version, now)
    validation = results.Validation(
        stream=request.stream,
        table=request.table,
        table_id=pinned.table_id,
        from_version=0,
        version=pinned.version,
        run_id=request.run_id,
        suite=suite.name,
        as_of=now,
        validated_at=now,
    )
    done = Validated(validation, tuple(outcomes), frame)
    # Here the outcomes are known and all failing rows at hand: `done.failing_frame(outcome)`.
    sampled = [(outcome, results.sample_of(done.breaking_frame(outcome))) for outcome in outcomes]
    # Last, because its rows say that this version is validated and where its page is.
    results.write_results(request.results_uri, validation, sampled, docs_path)
    return outcomes


@dataclass(frozen=True)
class Pin:
    """One version of one table, which later commits do not change."""

    uri: str
    table_id: str
    version: int


def pin(request: Request) -> Pin:
    """Return the version to validate: the requested one, or the latest now.

    Raises:
        ValidationError: there is no such table or version.
    """
    # deltalake and not Spark, whose first query of a Delta log takes seconds.
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(request.table_uri):
        raise ValidationError(
            f"{request.stream}: expected a Delta table at {request.table_uri}, found none."
            " It appears with the stream's first batch; start the stream."
        )
    table = DeltaTable(request.table_uri)
    version = table.version() if request.version is None else request.version
    if not 0 <= version <= table.version():
        raise ValidationError(
            f"{request.stream}: {request.table} has the versions 0 to {table.version()}, asked for {version}."
            " Give one of them, or none for the latest."
        )
    return Pin(request.table_uri, str(table.metadata().id), version)


def read(spark: SparkSession, request: Request, pinned: Pin) -> DataFrame:
    """Return the pinned version as a data frame.

    Raises:
        ValidationError: its files or log entries have been removed.
    """
    from pyspark.errors import AnalysisException

    try:
        return spark.read.format("delta").option("versionAsOf", pinned.version).load(pinned.uri)
    except AnalysisException as error:
        raise ValidationError(
            f"{request.stream}: version {pinned.version} of {request.table} is no longer retained."
            f" Validate a later one: {str(error).splitlines()[0]}"
        ) from error


def _run(
    request: Request, suite: Suite, frame: DataFrame, version: int, now: datetime
) -> tuple[list[Outcome], str]:
    from spark_jobs.quality.expectations import Validator

    context_dir = request.docs_dir.parent / "gx"
    context_dir.mkdir(parents=True, exist_ok=True)
    run_name = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{request.stream}_v{version}_{request.run_id}")[
        :_MAX_RUN_NAME
    ]
    # Streams share the folder, and a second writer would overwrite the index page and the context's files.
    with FileLock(str(context_dir / ".lock"), timeout=_LOCK_TIMEOUT_S):
        validator = Validator(context_dir, request.docs_dir)
        return validator.run(suite, frame, f"{request.table}_v{version}", run_name, now)


def _session_of(request: Request) -> Callable[[], SparkSession]:
    def start() -> SparkSession:
        from pyspark.sql import SparkSession

        # Importing it takes as long as starting Spark does, and one is Python and the other Java.
        loading = threading.Thread(target=importlib.import_module, args=("spark_jobs.quality.expectations",))
        loading.start()
        spark = (
            SparkSession.builder.appName(f"quality {request.stream}")
            .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        # The first plan loads most of Spark's classes.
        spark.range(1).count()
        loading.join()
        return spark

    return start


def main(argv: list[str]) -> int:
    """Run the job and return its exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    log.setLevel(logging.INFO)
    request = parse_request(argv)
    try:
        outcomes = validate(_session_of(request), request)
    except (SuiteError, ValidationError) as error:
        log.error("%s", error)
        return ERROR
    except Exception:
        log.exception("%s: the validation of %s could not be done", request.stream, request.table)
        return ERROR
    failed = [outcome for outcome in outcomes if not outcome.success]
    for outcome in failed:
        name, severity = outcome.expectation.name, outcome.expectation.severity
        log.warning("FAILED %s (%s): %s", name, severity, outcome.observed)
    log.info("%s: %d of %d expectations hold", request.stream, len(outcomes) - len(failed), len(outcomes))
    return FAILED if failed else PASSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
