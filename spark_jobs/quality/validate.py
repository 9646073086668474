"""Validate one Delta table at one version, as a Spark job.

    spark-submit spark_jobs/quality/validate.py --table-uri URI --table NAME --stream NAME --suite-file FILE
        --results-uri URI --docs-dir DIR --run-id ID [--version N]

Exit codes: 0 every expectation holds, 2 at least one fails, 1 the validation itself failed.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, not the checkout.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from filelock import FileLock

from spark_jobs.quality.suite import Suite, SuiteError, load_suite

if TYPE_CHECKING:
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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


def validate(spark: SparkSession, request: Request) -> list[Outcome]:
    """Validate the table, write the results and the Data Docs page.

    Returns:
        One outcome per expectation, in the suite's order.

    Raises:
        SuiteError: the suite cannot be used.
        ValidationError: the table or its version does not exist.
    """
    # Imported here: Great Expectations takes seconds, and a bad suite or version should not.
    from spark_jobs.quality import results

    suite = load_suite(request.suite_file)
    if suite.table != request.table:
        raise ValidationError(
            f"{request.stream}: suite {suite.name} is for table {suite.table}, not {request.table}."
            " Correct quality.suite in the stream's YAML."
        )
    frame, table_id, version = pin(spark, request)
    log.info("%s: validating %s at version %d", request.stream, request.table_uri, version)
    now = datetime.now(UTC)
    outcomes, docs_path = _run(request, suite, frame, version, now)
    sampled = [(outcome, results.failing_rows(spark, frame, outcome)) for outcome in outcomes]
    validation = results.Validation(
        request.stream, request.table, table_id, version, request.run_id, suite.name, now
    )
    # Last, because its rows say that this version is validated and where its page is.
    results.write_results(spark, request.results_uri, validation, sampled, docs_path)
    return outcomes


def pin(spark: SparkSession, request: Request) -> tuple[DataFrame, str, int]:
    """Return the table at the requested version, the table's id, and that version.

    Raises:
        ValidationError: there is no such table or version.
    """
    from delta.tables import DeltaTable
    from pyspark.errors import AnalysisException

    if not DeltaTable.isDeltaTable(spark, request.table_uri):
        raise ValidationError(
            f"{request.stream}: expected a Delta table at {request.table_uri}, found none."
            " It appears with the stream's first batch; start the stream."
        )
    table = DeltaTable.forPath(spark, request.table_uri)
    [latest] = table.history(1).select("version").collect()
    version = latest["version"] if request.version is None else request.version
    [detail] = table.detail().select("id").collect()
    try:
        frame = spark.read.format("delta").option("versionAsOf", version).load(request.table_uri)
    except AnalysisException as error:
        raise ValidationError(
            f"{request.stream}: {request.table} has no version {version} that can be read (latest is"
            f" {latest['version']}). Give a later one: {str(error).splitlines()[0]}"
        ) from error
    return frame, detail["id"], version


def _run(
    request: Request, suite: Suite, frame: DataFrame, version: int, now: datetime
) -> tuple[list[Outcome], str]:
    from spark_jobs.quality.expectations import Validator

    context_dir = request.docs_dir.parent / "gx"
    context_dir.mkdir(parents=True, exist_ok=True)
    run_name = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{request.stream}_{request.run_id}")[:_MAX_RUN_NAME]
    # Streams share the folder, and a second writer would overwrite the index page and the context's files.
    with FileLock(str(context_dir / ".lock"), timeout=_LOCK_TIMEOUT_S):
        validator = Validator(context_dir, request.docs_dir)
        return validator.run(suite, frame, f"{request.table}_v{version}", run_name, now)


def _session(request: Request) -> SparkSession:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.appName(f"quality {request.stream}")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def main(argv: list[str]) -> int:
    """Run the job and return its exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    log.setLevel(logging.INFO)
    request = parse_request(argv)
    try:
        outcomes = validate(_session(request), request)
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
