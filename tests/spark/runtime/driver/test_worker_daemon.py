"""What the daemon of Spark's Python workers has imported before it forks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tests.spark.conftest import Sparks

LIBRARIES = ("confluent_kafka", "deltalake", "pandas", "pyarrow")


def _parent(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import gc
    import os
    from pathlib import Path

    for _ in batches:
        mapped = Path(f"/proc/{os.getppid()}/maps").read_text()
        found = [name for name in LIBRARIES if f"/{name}/" in mapped]
        walked = any(one is vars(pa) for one in gc.get_objects())
        yield pa.RecordBatch.from_pylist([{"found": found, "walked": walked}])


def test_workers_share_the_libraries_that_their_daemon_has_imported(sparks: Sparks) -> None:
    (row,) = sparks.session().range(1).mapInArrow(_parent, "found array<string>, walked boolean").collect()
    assert row.found == list(LIBRARIES)
    assert not row.walked, "no collection walks over them"
