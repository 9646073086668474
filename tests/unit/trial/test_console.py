"""What a trial prints of a batch, as Spark's console sink does."""

from __future__ import annotations

from stateward.trial.console import ShownRows, show
from tests.unit.runtime.sink.test_sink import ALERTS, VISIT, VISITS, Batch, counts, part


def shown(batch: Batch, most: int = 20) -> list[str]:
    lines = list[str]()
    show(7, batch.toArrow(), most, lines.append)
    return lines


def test_a_batch_has_its_number_its_counts_and_the_rows_of_each_table() -> None:
    batch = Batch(
        part(VISITS, VISIT),
        counts(records=3, accepted=2, dead=1, watermark_ms=1_000),
        part(ALERTS, ("ann",)),
        part(VISITS, VISIT, VISIT),
        counts(records=1, accepted=1),
    )
    head, lines = shown(batch)[:4], shown(batch)[4:]
    assert head == [
        "-" * 43,
        "Batch: 7",
        "-" * 43,
        "4 records (3 accepted, 1 dead); watermark 1970-01-01T00:00:01+00:00",
    ]
    assert [line for line in lines if line.endswith(("row", "rows"))] == ["alerts: 1 row", "visits: 3 rows"]
    assert [line.split() for line in lines if "ann" in line] == [["ann"]]
    assert sum("[a, b]" in line for line in lines) == 3


def test_no_more_rows_are_shown_than_asked() -> None:
    lines = shown(Batch(part(VISITS, *[VISIT] * 5), counts(records=5, accepted=5)), most=2)
    assert sum("[a, b]" in line for line in lines) == 2
    assert lines[-1] == "only showing the first 2 rows"
    assert "visits: 5 rows" in lines


def test_a_batch_without_records_and_rows_is_not_shown_and_one_without_a_watermark_says_so() -> None:
    assert shown(Batch(counts(records=0, watermark_ms=5))) == []
    assert shown(Batch(counts(records=2)))[-1] == "2 records (none accepted yet); no watermark yet"


def test_the_sink_gets_the_rows_that_are_shown() -> None:
    batch = Batch(part(ALERTS, ("ann",)))
    rows = ShownRows(batch)
    assert rows.toArrow() == rows.packed == batch.toArrow()
