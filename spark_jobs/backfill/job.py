"""Recompute a stream's tables, as a Spark job.

    spark-submit spark_jobs/backfill/job.py <URI of the request>

Says on standard output what it is doing, one line a step, and writes a report. Exit codes: 0 done, and equal
if it was to compare; 2 done and different; 1 it could not be done.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, not the checkout.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from spark_jobs.backfill.request import BackfillError, job_of, load_request
from spark_jobs.runtime import storage
from spark_jobs.runtime.config import ConfigError

DONE, ERROR, DIFFERENT = 0, 1, 2
STEP = "@step"
"""Begins a line of progress: the part and what happens to it follow, separated by tabs."""

_SHUFFLE_PARTITIONS = 8

log = logging.getLogger("stateward.backfill")


def say(part: str, what: str) -> None:
    """Report progress to whoever reads standard output."""
    print(STEP, part, what, sep="\t", flush=True)  # noqa: T201


def main(arguments: list[str]) -> int:
    """Run the job and return its exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if len(arguments) != 1:
        log.error("usage: spark-submit job.py <URI of the request>")
        return ERROR
    try:
        request = load_request(arguments[0])
        job = job_of(request.config.stream)
        from spark_jobs.backfill.recompute import READY, recompute
        from spark_jobs.runtime.session import create_session

        say("Spark", "starting")
        spark = create_session(f"backfill {request.config.stream}", _SHUFFLE_PARTITIONS, {})
        say("Spark", READY)
        report = recompute(spark, request, job, say)
    except (BackfillError, ConfigError) as error:
        print("@error", error, sep="\t", flush=True)  # noqa: T201
        return ERROR
    except Exception:
        log.exception("the recomputation could not be done")
        return ERROR
    storage.write_json(request.report_uri, report)
    return DIFFERENT if report["equal"] is False else DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
