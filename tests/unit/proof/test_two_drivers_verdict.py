"""The verdict on two drivers of a checkpoint sees what is wrong: a proof that cannot fail proves nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from proof.two_drivers.verdict import Named, named_in, wrong_commits
from stateward.contract.lease import Holding, LeaseRecord
from stateward.contract.process_identity import ProcessIdentity
from stateward.runtime.lease.lease import LeaseHeldError
from tests.support.full import ci_full

# It is about what the software is tested with.
pytestmark = ci_full

START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


HOLDINGS = [
    Holding(1, "run-1", "one/b/pid", 11, at(0), at(10), "superseded"),
    Holding(2, "run-2", "two/b/pid", 22, at(10), at(20), "released"),
    Holding(3, "run-3", "one/b/pid", 33, at(21)),
]


def batch(number: int, epoch: int, seconds: float, **changes: Any) -> dict[str, Any]:
    row = {
        "generation": "g",
        "batch_id": number,
        "epoch": epoch,
        "run_id": f"run-{epoch}",
        "committed_at": at(seconds),
    }
    return {**row, **changes}


RIGHT = [batch(0, 1, 5), batch(1, 2, 12), batch(2, 2, 20), batch(3, 3, 30)]


def test_each_batch_once_and_by_its_holder_is_right() -> None:
    assert wrong_commits(reversed(RIGHT), HOLDINGS) == {}


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([*RIGHT, batch(1, 1, 9)], {"batches committed twice": [("g", 1)]}),
        (
            [batch(0, 1, 5), batch(1, 2, 12), batch(2, 1, 9)],
            {"batches of an epoch after those of a later one": [1, 2, 1]},
        ),
        (
            [batch(0, 1, 11)],
            {"commits by who did not hold the lease": [f"batch 0 by epoch 1 (run-1) at {at(11)}"]},
        ),
        (
            [batch(0, 4, 40)],
            {"commits by who did not hold the lease": [f"batch 0 by epoch 4 (run-4) at {at(40)}"]},
        ),
        (
            [batch(0, 3, 30, run_id="run-1")],
            {"commits by who did not hold the lease": [f"batch 0 by epoch 3 (run-1) at {at(30)}"]},
        ),
    ],
    ids=["twice", "out-of-order", "after-its-time", "no-holder", "another-run"],
)
def test_what_a_fence_would_have_kept_out_is_found(
    batches: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    assert expected.items() <= wrong_commits(batches, HOLDINGS).items()


def test_an_epoch_that_two_have_taken_is_found() -> None:
    assert wrong_commits(RIGHT, [*HOLDINGS, HOLDINGS[-1]]) == {"epochs taken twice": [3]}


def test_whom_a_refused_driver_names_is_read_from_what_it_logs() -> None:
    holder = ProcessIdentity("one/boot/pid:[402]", 33, 5.0)
    record = LeaseRecord("sums", 3, "run-3", holder, at(21), at(21), at(31), released=False)
    named = named_in(f"12:00:21 ERROR stateward.driver: {LeaseHeldError(record)}\n")
    assert named == Named("run-3", 33, "one/boot/pid:[402]", 3)
    assert named.is_(Holding(3, "run-3", "one/boot/pid:[402]", 33, at(21)))
    assert not named.is_(Holding(3, "run-3", "two/boot/pid:[402]", 33, at(21)))
    assert named_in("12:00:21 INFO stateward.driver: drained") is None
