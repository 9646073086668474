"""Fixtures of pytest: `from stateward.testing.fixtures import bucket_bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stateward.testing.requirements import require

require("pytest", "pyspark", "pandas")

import pytest  # noqa: E402

from stateward.testing.bucket_bench import BucketBench  # noqa: E402
from stateward.testing.cases import case_of  # noqa: E402


@pytest.fixture
def bucket_bench(tmp_path: Path) -> Iterator[Callable[..., BucketBench]]:
    """Make benches: `bucket_bench("refunds")` is a bucket of the stream in the processor that Spark runs.

    The options are those of `Limits`: `max_held`, `eager`, `jitter_ms`.
    """
    made: list[BucketBench] = []

    def bench(stream: str, **limits: Any) -> BucketBench:
        case = case_of(stream)
        made.append(BucketBench(tmp_path / str(len(made)), case.job, case.logic, **limits))
        return made[-1]

    yield bench
    for one in made:
        one.end()
