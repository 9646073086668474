"""Shows the rows of each batch, as Spark's console sink does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pyarrow as pa

from stateward.contract.stream_status import OUTCOMES
from stateward.runtime.sink.output_rows import KIND_COUNTS, decode_rows
from stateward.runtime.sink.sink import ArrowRows

_RULE = "-" * 43
_WIDTH = 40


class ShownRows:
    """The rows of a batch, kept when the sink collects them."""

    def __init__(self, batch: ArrowRows) -> None:
        self._batch = batch
        self.packed: pa.Table | None = None

    def toArrow(self) -> pa.Table:
        """Run the job and return its rows."""
        self.packed = self._batch.toArrow()
        return self.packed


def show(batch_id: int, packed: pa.Table, most: int, line: Callable[[str], None]) -> None:
    """Show a batch that read a record or has a row.

    Args:
        batch_id: Its number.
        packed: ``kind, rows, data`` (`output_rows`).
        most: How many rows of a table are shown.
        line: Takes each line.
    """
    counts: Counter[str] = Counter()
    watermark_ms, tables = 0, dict[str, list[pa.Table]]()
    for row in packed.to_pylist():
        if row["kind"] == KIND_COUNTS:
            document = json.loads(row["data"])
            counts.update({name: document.get(name, 0) for name in ("records", *OUTCOMES)})
            watermark_ms = max(watermark_ms, int(document.get("watermark_ms") or 0))
        else:
            tables.setdefault(row["kind"], []).append(decode_rows(row["data"]))
    if not counts["records"] and not tables:
        return
    for text in (_RULE, f"Batch: {batch_id}", _RULE):
        line(text)
    outcomes = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name])
    at = datetime.fromtimestamp(watermark_ms / 1000, UTC).isoformat(timespec="seconds")
    watermark = f"watermark {at}" if watermark_ms else "no watermark yet"
    line(f"{counts['records']} records ({outcomes or 'none accepted yet'}); {watermark}")
    for name in sorted(tables):
        for text in _table(name, pa.concat_tables(tables[name]), most):
            line(text)


def _table(name: str, rows: pa.Table, most: int) -> Iterator[str]:
    yield ""
    yield f"{name}: {rows.num_rows} row{'s' if rows.num_rows != 1 else ''}"
    shown = rows.slice(0, most).to_pandas()
    yield from shown.to_string(index=False, max_colwidth=_WIDTH).splitlines()
    if rows.num_rows > most:
        yield f"only showing the first {most} rows"
