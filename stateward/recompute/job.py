"""Recompute a stream's tables, as a Spark job.

    spark-submit stateward/recompute/job.py <URI of the request>

Reports its steps on standard output, one line each, and writes a report. Exit codes: 0 done, and equal if it
compared; 2 done and different; 1 failed.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

if __name__ == "__main__":
    # spark-submit puts this file's folder on the path, whose modules would hide others of the same name.
    del sys.path[0]

from stateward.contract import storage
from stateward.contract.process_output import READY, JobExit
from stateward.recompute.record import write_record
from stateward.recompute.request import BackfillError, job_of, load_request
from stateward.runtime.api.any_job import writing
from stateward.runtime.api.config import ConfigError
from stateward.runtime.telemetry.batch_steps import begin_log, report_error, report_step

_SHUFFLE_PARTITIONS = 8

log = logging.getLogger("stateward.backfill")


def main(arguments: list[str]) -> int:
    """Run the job and return its exit code."""
    begin_log()
    if len(arguments) != 1:
        log.error("usage: spark-submit job.py <URI of the request>")
        return JobExit.FAILED
    try:
        request = load_request(arguments[0])
        job = writing(job_of(request.config.stream), request.config.tables)
        from stateward.recompute.recompute import recompute
        from stateward.runtime.session import create_session

        report_step("Spark", "starting")
        spark = create_session(f"backfill {request.config.stream}", _SHUFFLE_PARTITIONS, {})
        report_step("Spark", READY)
        report = recompute(spark, request, job, report_step)
    except (BackfillError, ConfigError) as error:
        return report_error(error)
    except Exception:
        log.exception("the recomputation failed")
        return JobExit.FAILED
    if request.record is not None:
        write_record(request.record, report, datetime.now(UTC))
    storage.write_json(request.report_uri, report)
    return JobExit.DIFFERENT if report["equal"] is False else JobExit.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
