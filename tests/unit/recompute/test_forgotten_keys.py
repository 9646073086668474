"""A recomputation knows which records and rows are missing on purpose."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from stateward.contract.privacy.forgotten import ForgottenKey, RecordsOf, Spans
from stateward.recompute.lookback import Landed, landed_since, not_landed
from stateward.recompute.raw import with_forgotten
from stateward.recompute.recompute import forgotten_by_others


def test_forgotten_records_at_the_ends_of_a_partition_are_not_missing() -> None:
    landed = {0: Landed(2, 8, 1_000), 1: Landed(0, 5, 2_000)}
    assert landed_since(landed, {0: 0, 1: 0}, 0) == 1_000
    assert not_landed(landed, {0: 10, 1: 5, 2: 3}) == {0: 2, 2: 3}
    forgotten = {0: Spans(((0, 1), (8, 9))), 2: Spans(((0, 2),))}
    found = with_forgotten(landed, forgotten)
    assert landed_since(found, {0: 0, 1: 0, 2: 0}, 0) is None
    assert not_landed(found, {0: 10, 1: 5, 2: 3}) == {}


def test_a_record_that_is_missing_for_another_reason_stays_missing() -> None:
    found = with_forgotten({0: Landed(3, 8, 1_000)}, {0: Spans(((1, 2), (9, 9)))})
    assert (found[0].first, found[0].end) == (1, 8)
    assert not_landed(found, {0: 10}) == {0: 2}


def forgotten(stream: str, digest: str, field: str = "user_id", topic: str = "user_events") -> ForgottenKey:
    return ForgottenKey(
        operation=f"{stream}-{digest}",
        stream=stream,
        field=field,
        digest=digest,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        records={topic: RecordsOf("id", {})},
    )


def test_only_keys_that_the_stream_itself_still_has_are_left_out_of_a_comparison() -> None:
    request: Any = SimpleNamespace(config=SimpleNamespace(stream="user_sessions", topics=("user_events",)))
    keys = [
        forgotten("user_sessions", "mine"),
        forgotten("action_counts", "mine"),
        forgotten("action_counts", "other"),
        forgotten("fraud_watch", "account", field="account_id"),
        forgotten("user_activity", "elsewhere", topic="user_activity"),
    ]
    assert forgotten_by_others(keys, request, "user_id") == {"other"}
