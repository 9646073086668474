"""What the daemon of Spark's Python workers has imported before it forks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tests.spark.conftest import Sparks

LIBRARIES = ("confluent_kafka", "deltalake", "pandas", "pyarrow")


def _parent(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import os
    from pathlib import Path

    for _ in batches:
        mapped = Path(f"/proc/{os.getppid()}/maps").read_text()
        yield pa.RecordBatch.from_pylist([{"found": [name for name in LIBRARIES if f"/{name}/" in mapped]}])


def test_workers_share_the_libraries_that_their_daemon_has_imported(sparks: Sparks) -> None:
    rows = sparks.session().range(1).mapInArrow(_parent, "found array<string>").collect()
    assert [row.found for row in rows] == [list(LIBRARIES)]
