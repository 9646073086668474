"""`python -m benchmarks.states.rewriting CHECKPOINT TARGET`: what simply reading and rewriting a state takes.

Twice: its files are read and written again, each with fsync, and nothing is understood of them; and Spark
reads every entry of the state and writes it as Parquet, without any of it being repartitioned, summed up or
proved. Prints a line of JSON. The yardstick of `benchmarks.moving`, in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateward.project.settings import CHECKOUT, Settings
from stateward.state.reader.stores import readable
from stateward.state.reader.variables import entries, variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHUNK = 4 * 1024 * 1024


def main(arguments: list[str]) -> int:
    """Measure both; returns 0."""
    checkpoint, target = (Path(argument) for argument in arguments)
    files = _timed(lambda: copy_synced(checkpoint, target / "files"))
    spark = _session()
    # The start of a session is not counted; the warm-up in its first job is, as in a repartition.
    parquet = _timed(lambda: rewrite(spark, f"file://{checkpoint}", target / "parquet"))
    spark.stop()
    print(json.dumps({"files": files, "parquet": parquet}))
    return 0


def copy_synced(source: Path, target: Path) -> int:
    """Copy a folder's files one after the other, each written through to the disk; returns their bytes."""
    written = 0
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as read, place.open("wb") as copy:
            while chunk := read.read(_CHUNK):
                copy.write(chunk)
                written += len(chunk)
            copy.flush()
            os.fsync(copy.fileno())
    return written


def rewrite(spark: SparkSession, checkpoint_uri: str, target: Path) -> int:
    """Read every entry of the newest state, and write it as Parquet; returns the bytes written."""
    found = variables(spark, checkpoint_uri)
    with readable(spark, checkpoint_uri):
        entries(spark, checkpoint_uri, found).write.parquet(f"file://{target}")
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())


def _timed(work: Callable[[], int]) -> dict[str, Any]:
    begun = time.monotonic()
    written = work()
    return {"seconds": round(time.monotonic() - begun, 2), "bytes": written}


def _session() -> SparkSession:
    from stateward.runtime import session

    os.environ["STATEWARD_JARS"] = str(Settings().jars / "spark")
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    return session.create_session("rewriting", 2, session.checkpoint_conf("file:"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
