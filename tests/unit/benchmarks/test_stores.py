"""The benchmark of state stores without Spark: cases, figures and tables, and the shape of a log."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import log_shape, stores
from benchmarks.charts.stores import line_through, log_page, page_text
from benchmarks.states.case import Case
from benchmarks.states.padded import Event, PaddedLogic, key_names, pool
from benchmarks.states.rig import gc_pauses_ms

GC_LOG = """
[0.5s][info][gc] Using Serial
[1.2s][info][gc] GC(0) Pause Young (Allocation Failure) 24M->5M(92M) 3.512ms
[2.9s][info][gc] GC(1) Pause Full (Metadata GC Threshold) 40M->9M(92M) 51.000ms
"""
FIGURES = {
    "fill_s": 4.0,
    "batch_ms": 300.0,
    "commit_ms": 40.0,
    "cpu_ms": 410,
    "recoveries": [{"load_ms": 9.0, "load_cpu_ms": 5.0 * n, "replayed": n} for n in (1, 3, 2)],
    "metrics": {"rocksdbReadBlockCacheHitCount": 3, "rocksdbReadBlockCacheMissCount": 1},
    "gc_count": 7,
    "gc_total_ms": 90,
    "gc_longest_ms": 30,
    "heap_mib": 200,
    "jvm_mib": 900,
    "workers_mib": 150,
    "state_mib": 12.0,
    "checkpoint_mib": 55.0,
    "copies_mib": 20.0,
    "files": {".changelog": 12, ".zip": 2},
}


def result(case: Case, **more: Any) -> dict[str, Any]:
    return {
        "at": "2026-11-25T08:00:00+00:00",
        "cpus": 2,
        "load_before": 1.5,
        "case": asdict(case),
        **({"points": [[x, 7, 100 + 2 * x] for x in case.points]} if case.points else FIGURES),
        **more,
    }


def test_each_case_has_a_name_of_its_own_and_settings_that_spark_knows() -> None:
    cases = stores.cases()
    assert len({(case.table, case.name) for case in cases}) == len(cases)
    names = {name for case in cases for name in case.conf}
    assert {name.rpartition(".")[0] for name in names} <= {
        "spark.sql.streaming.stateStore",
        "spark.sql.streaming.stateStore.rocksdb",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing",
    }
    assert {case.engine for case in cases} == {"native", "keyed"}


def test_an_unknown_table_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        stores.main(["sises"])
    assert "expected tables of stores, settings, sizes, uncommitted, found sises" in capsys.readouterr().err


def test_every_case_is_a_row_and_the_newest_result_counts() -> None:
    results = [result(case) for case in stores.cases()]
    newer = result(stores.cases()[0], batch_ms=1234.0)
    text = page_text([*results, newer])
    rows = re.findall(r"^\| (?!-)(.*) \|$", text, re.MULTILINE)
    assert len([row for row in rows if not row.startswith("-")]) == len(results) + 4, "and four headers"
    assert "| RocksDB, 10,000 keys | 1,234 | 410 | 40 | 10 (5 to 15) |" in text
    assert "| changelog off | 410 | 40 | 10 (5 to 15) | 1.0 | 2 (1 to 3) | 2 | 75% |" in text
    assert text.count("make bench-stores TABLE=") == 4
    widths = [row.count("|") for row in rows]
    assert len(set(widths[: widths.index(widths[-1])])) <= 3, "each row has the columns of its header"


def test_a_case_that_failed_says_why_in_its_row() -> None:
    (large,) = (case for case in stores.cases() if "heap 4g" in case.name)
    text = page_text([{**result(large), "problem": "the heap was full"}])
    assert "| HDFS-backed, 1,000,000 keys, heap 4g | the heap was full |" in text


def test_a_line_through_points_on_a_line_explains_them_all() -> None:
    slope, intercept, fit = line_through([(1, 12), (2, 14), (10, 30)])
    assert (round(slope, 6), round(intercept, 6), round(fit, 6)) == (2, 10, 1)
    assert line_through([(1, 5), (2, 9), (3, 4)])[2] < 0.1


def test_pauses_are_read_from_the_log_of_the_collector() -> None:
    assert gc_pauses_ms(GC_LOG) == [3.512, 51.0]


def test_the_text_of_a_state_is_its_key_s_own_and_never_changes() -> None:
    logic = PaddedLogic(1000)
    texts = set()
    for key in key_names(range(50)):
        state, _ = logic.apply(key, None, Event("a", 1))
        later, _ = logic.apply(key, state, Event("b", 1))
        assert (later.updates, later.text) == (2, state.text)
        assert len(state.text) == 1000 and state.text in pool()
        texts.add(state.text)
    assert len(texts) == 50


def test_a_log_stays_at_three_times_its_states_and_writes_little_more_than_changes(tmp_path: Path) -> None:
    shapes = [log_shape.shape(share, tmp_path / f"{share}", keys=300) for share in (1.0, 0.1)]
    for found in shapes:
        assert found["written_per_change"] <= 1.5
        assert found["logged_per_live"] <= 3 + 256 / 300 + 0.2
        assert found["calls_per_batch"] < 6
    copies = [log_shape.copy_factor(size, tmp_path / f"copy-{size}", keys=300) for size in (100, 2_000)]
    assert copies[0]["factor"] > copies[1]["factor"] > 1, "a small state has more beside it"
    long = log_shape.long_log(300, tmp_path / "long", chunks=300, settled=20)
    assert long["chunks"] <= 65 and long["written_per_change"] <= 6
    text = log_page({"keys": 300, "shapes": shapes, "copies": copies, "long": [long]})
    assert text.count("\n| 30") == 3, "300 and 30 keys per batch, and 300 with a long log"
    assert "| 109 | 300 |" in text
