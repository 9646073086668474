"""`python -m benchmarks.quality`: what a validation finds in a sound table, and what it takes.

Sound sessions are written in `--runs` batches, with a validation after each; then all rows are validated at
once, as the first validation of a table does. Prints a line of JSON for each of `--rows`: the findings, of
which there are none, and of the last validation its seconds and the most memory that a process of it had.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from spark_jobs.user_sessions.declaration import SESSIONS
from stateward.contract.process_output import JobExit
from stateward.quality.validation.request import Request
from stateward.runtime.api.tables import arrow_schema
from tests.support.spark.launches import CHECKOUT, JARS
from tests.support.spark.written_batches import Written

PER_USER = 20
_HOUR_US = 3_600_000_000
_START_US = 1_735_689_600_000_000  # 2025-01-01


def sessions(first: int, count: int, seed: int) -> pa.Table:
    """Sound sessions, `PER_USER` of each user, an hour and more apart."""
    numbers = np.arange(first, first + count)
    chance = np.random.default_rng(seed)
    started = _START_US + numbers % PER_USER * 2 * _HOUR_US + numbers // PER_USER % 1000 * 1000
    length_ms = np.minimum(chance.exponential(300_000, count), 3_500_000).astype(np.int64)
    ended = started + length_ms * 1000
    timed_out = chance.random(count) < 0.8
    columns = {
        "session_id": np.char.add("s", numbers.astype(str)),
        "user_id": np.char.add("u", (numbers // PER_USER).astype(str)),
        "started_at": started,
        "ended_at": ended,
        "duration_ms": length_ms,
        "event_count": 1 + length_ms // 60_000,
        "last_event_type": np.full(count, "view"),
        "close_reason": np.where(timed_out, "TIMEOUT", "ENDED"),
        "closed_at": ended + np.where(timed_out, 1_800_000_000, 0),
    }
    schema = arrow_schema(SESSIONS)
    return pa.table([pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema)


def run(request: Request, memory: str) -> tuple[int, float]:
    """Validate as the DAG does; return the exit code and the seconds it took."""
    arguments = {
        "--table-uri": request.table_uri,
        "--table": request.table,
        "--stream": request.stream,
        "--suite-file": str(request.suite_file),
        "--results-uri": request.results_uri,
        "--docs-uri": request.docs_uri,
        "--run-id": request.run_id,
        "--from-version": "next" if request.from_version is None else str(request.from_version),
    }
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", "local[2]", "--driver-memory", memory, "--conf", "spark.ui.enabled=false"),
        *("--jars", ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))),
        str(CHECKOUT / "stateward" / "quality" / "validation" / "validate.py"),
        *(part for pair in arguments.items() for part in pair),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(CHECKOUT)}
    begun = time.monotonic()
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode not in (JobExit.DONE, JobExit.DIFFERENT):
        raise RuntimeError(f"the validation could not be done:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode, time.monotonic() - begun


def findings(written: Written) -> list[str]:
    """Every expectation that failed, with the value found."""
    rows = DeltaTable(written.request("x").results_uri).to_pyarrow_table().to_pylist()
    return [f"{row['run_id']}: {row['name']}: {row['observed_value']}" for row in rows if not row["success"]]


def measure(rows: int, runs: int, memory: str) -> dict[str, object]:
    """Write and validate a table of so many rows."""
    with tempfile.TemporaryDirectory() as home:
        written = Written(Path(home), SESSIONS, "user_sessions")
        batches = max(runs, 1)
        for number in range(batches):
            written.batch(sessions(number * rows // batches, rows // batches, number))
            if runs:
                run(written.request(f"range-{number}"), memory)
        _, seconds = run(written.request("all", first=0), memory)
        # The maximum over all children is that of the last, which reads all rows.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        found = findings(written)
        return {"rows": rows, "runs": runs, "findings": found, "seconds": round(seconds, 1), "peak_mb": peak}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--runs", type=int, default=10, help="ranges validated one after the other; may be 0")
    parser.add_argument("--memory", default="1g", help="of Spark's driver")
    given = parser.parse_args()
    for rows in given.rows:
        sys.stdout.write(json.dumps(measure(rows, given.runs, given.memory)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
