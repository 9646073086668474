"""`export`: the rows of a bucket, the table's columns, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

from spark_jobs.user_sessions.declaration import JOB
from spark_jobs.user_sessions.logic import SessionLogic
from stateward.project.settings import CHECKOUT
from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.watermark.admission import Limits, Seen
from stateward.state.reader.key_evaluator import KeyEvaluator
from stateward.state.verbs.export import _SCHEMA, STATE_EXPORTS, _row_maker

EVALUATOR = KeyEvaluator(SessionLogic(1000), JOB.state_type, JOB.event_type, Limits(100, max_held=10))
REMEMBERS = b'{"recent":[["a",100]]}'


def rows(evaluator: KeyEvaluator | None, **states: bytes) -> list[dict[str, Any]]:
    stored = {key: (number, state) for number, (key, state) in enumerate(states.items())}
    return _row_maker(evaluator, {3: 1})(0, 3, stored)


def test_a_key_has_its_state_as_it_is_stored_and_its_timer() -> None:
    codec: KeyStateCodec[Any, Any] = KeyStateCodec(JOB.state_type, JOB.event_type)
    assert codec.decode(REMEMBERS) == KeyState(recent=(Seen("a", 100),))
    [row] = rows(EVALUATOR, u=REMEMBERS)
    assert row == {
        "partition": 0,
        "bucket": 3,
        "key": "u",
        "value": REMEMBERS.decode(),
        "schema_version": 1,
        "due_ms": 201,
    }
    assert list(row) == _SCHEMA.names


def test_a_state_that_the_logic_cannot_read_is_exported_without_a_timer() -> None:
    found = rows(EVALUATOR, u=REMEMBERS, v=b'{"state":{"of":"another"}}')
    assert [row["due_ms"] for row in found] == [201, None]
    assert [row["due_ms"] for row in rows(None, u=REMEMBERS)] == [None], "no declaration"


def test_the_page_has_the_columns_of_the_table() -> None:
    page = (CHECKOUT / "docs" / "state-export.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| `([\w<>]+)` \| (.+) \|$", page, re.MULTILINE)
    assert listed == [(one.name, one.type, one.comment) for one in STATE_EXPORTS.columns]
