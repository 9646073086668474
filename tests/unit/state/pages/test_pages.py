"""The pages of `inspect` and `explain`: whole, self-contained, and careful with what is in the data."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from stateward.state.inspection.bounds import bounds_from
from stateward.state.inspection.documents import explanation_document, inspection_document
from stateward.state.inspection.evenness import judged
from stateward.state.inspection.key_report import Entry, PendingTimer, StateChange
from stateward.state.inspection.sizes import Sample, Size, SizeLimits, growth
from stateward.state.inspection.state_changes import Change
from stateward.state.pages.page import explanation_page, inspection_page
from stateward.state.partitions.checkpoint_interval import interval
from stateward.state.reader.measures import BatchTime, LargeKey, Load, Variable, timers
from stateward.state.verbs.explain import Explanation
from stateward.state.verbs.inspect import Inspection

HOUR_MS = 3_600_000
NASTY = "<script>alert(1)</script>&\"'"
SIZE = Size(keys=100, key_bytes=1000, value_bytes=9000, store_bytes=20_000, disk_bytes=50_000)
KEYS = Variable(
    0,
    "transformWithStateInPySparkExec",
    "keys",
    "the newest state of each key",
    100,
    1000,
    9000,
    "json",
    (Load(0, 60, 600, 5400), Load(1, 40, 400, 3600)),
    tuple(Load(number, 100 // 8, 125, 1125) for number in range(8)),
    timers([500, 2000, 70_000], 1000),
    (LargeKey(NASTY, 0, 3, 1, 4000, 2000),),
)
INSPECTION = Inspection(
    stream="user_sessions",
    checkpoint_uri="file:///data/checkpoints/user_sessions/g0001",
    batch_id=7,
    first_batch=3,
    last_batch=9,
    planned_ms=1_700_000_000_000,
    watermark_ms=1000,
    variables=(KEYS,),
    partition_skew=1.2,
    bucket_skew=1.0,
    judged=judged((KEYS,), {}),
    size=SIZE,
    growth=growth([Sample(n, n * HOUR_MS, 80 + 10 * n) for n in range(3)], SIZE, SizeLimits(40_000, 100_000)),
    times=(),
    interval=interval([BatchTime(n, n * 1000, n * 1000 + 200, 0) for n in range(8)], None),
    bounds=bounds_from(
        10_000, {"held_full": 2, "folded_early": 1500, "below_floor": 3, "ids_full": 0, "ids_forgotten": 0}
    ),
    unreadable=0,
    keys_shown=True,
    notes=("Files on disk are the current ones, whichever batch is inspected.",),
)
STATE = {"state": {"count": 2}, "held": [["e1", 5, NASTY]]}
EXPLANATION = Explanation(
    stream="user_sessions",
    checkpoint_uri="file:///data/checkpoints/user_sessions/g0001",
    key=NASTY,
    batch_id=7,
    first_batch=3,
    last_batch=9,
    planned_ms=1_700_000_000_000,
    watermark_ms=1000,
    entries=(
        Entry(
            0,
            "transformWithState",
            "keys",
            1,
            5,
            NASTY,
            STATE,
            {"state": {"count": 3}},
            40,
            500,
            "the deadline passes",
        ),
    ),
    coming=(
        PendingTimer(
            500, "the deadline passes", (Change("held", [["e1", 5]], None),), (("Row", {"a": NASTY}),), True
        ),
    ),
    bucket_timer_ms=500,
    history=(
        StateChange(
            5, 1_700_000_000_000, 900, "keys", NASTY, "the key begins", (Change("a", None, NASTY),), STATE
        ),
    ),
    history_from=3,
    notes=(),
)
PAGES = {"inspect": inspection_page(INSPECTION), "explain": explanation_page(EXPLANATION)}
_VOID = {"meta", "link", "br", "hr", "img", "rect", "path"}


class Balance(HTMLParser):
    """Tags that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag, f"</{tag}> closes another element"


@pytest.mark.parametrize("verb", PAGES)
def test_a_page_is_whole_and_needs_nothing_else(verb: str) -> None:
    page = PAGES[verb]
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert "script" not in parser.seen
    assert re.findall(r"(?:src|href)=|url\(|@import", page) == []
    assert 'name="viewport"' in page
    assert "color-scheme: light dark" in page


@pytest.mark.parametrize("verb", PAGES)
def test_what_is_in_the_data_is_shown_and_never_run(verb: str) -> None:
    assert NASTY not in PAGES[verb]
    assert "&lt;script&gt;" in PAGES[verb]


def test_the_page_of_an_inspection_shows_its_figures() -> None:
    page = PAGES["inspect"]
    for figure in (
        ">warn<",
        "100 × (10 B + 90 B) × 5.00 = 50.0 kB",
        "10 keys, 5.0 kB on disk an hour",
        "1.20",
        "1,500 events folded early, 3 late for it",
        "assumed",
    ):
        assert figure in page, figure
    assert page.count("<svg") == 2 + 1 + 3 + 1  # partitions, buckets, timers in three bins, growth
    assert "reached already" in page  # the first limit
    assert "masked" not in page
    assert "masked" in inspection_page(replace(INSPECTION, keys_shown=False))


def test_a_stream_without_state_has_a_page_too() -> None:
    nothing = Size(0, 0, 0, 0, 0)
    empty = replace(
        INSPECTION,
        variables=(),
        partition_skew=None,
        bucket_skew=None,
        size=nothing,
        growth=growth([Sample(7, 0, 0)], nothing, SizeLimits()),
        interval=interval([], None),
        watermark_ms=0,
    )
    page = inspection_page(empty)
    assert "Too few batches" in page
    assert "not measured" in page


def test_the_page_of_an_explanation_shows_state_end_and_history() -> None:
    page = PAGES["explain"]
    for said in (
        "which it has reached: with the next batch",
        "the end",
        "the key begins",
        "partition 1 · bucket 5",
    ):
        assert said in page, said
    gone = explanation_page(replace(EXPLANATION, entries=(), coming=(), history=(), bucket_timer_ms=None))
    assert "No retained batch after batch 3 has changed it." in gone


def test_the_documents_hold_the_same_and_are_json() -> None:
    inspected: dict[str, Any] = json.loads(json.dumps(inspection_document(INSPECTION)))
    assert inspected["size"]["versioning"] == 5.0
    assert inspected["variables"][0]["partitions"][1] == {
        "number": 1,
        "keys": 40,
        "key_bytes": 400,
        "value_bytes": 3600,
        "timers": None,
    }
    assert (inspected["verb"], inspected["growth"]["level"]) == ("inspect", "warn")
    explained: dict[str, Any] = json.loads(json.dumps(explanation_document(EXPLANATION)))
    assert explained["entries"][0]["value"] == STATE
    assert explained["history"][0]["changes"] == [{"field": "a", "before": None, "after": NASTY}]
