"""The small form of `make chaos`: three streams, and nearly everything is killed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.chaos.faults import FAULTS
from proof.chaos.report import verdict_line
from proof.chaos.run import Options, run_chaos
from tests.support.full import only_full

pytestmark = [pytest.mark.e2e, only_full]

STREAMS = ("user_sessions", "fraud_watch", "raw_events")
# Left to `make chaos`: now and then libfaketime itself lets a driver hang, which then has to be replaced.
CLOCKS = {"clock-ahead", "clock-behind"}
KINDS = tuple(name for name in FAULTS if name not in CLOCKS)
# The seed brings a bit of everything, neighbours among it, and all at once in the end.
OPTIONS = Options(STREAMS, minutes=2.5, seed=101152, mean_gap_s=14, faults=KINDS)
NEIGHBOURS = {"year-ahead", "hour-ahead", "partitions", "garbage", "copies-full"}
AT_LEAST = {"driver", "workers", "broker", "everything", *NEIGHBOURS}


@pytest.mark.timeout(1800)
def test_every_table_is_exact_whatever_dies(tmp_path: Path) -> None:
    told: list[str] = []
    outcome = run_chaos(tmp_path, OPTIONS, told.append)
    assert outcome.wrong == {}, (verdict_line(outcome), told)
    assert {hit.kind for hit in outcome.hits} >= AT_LEAST, told
    assert all(outcome.rows.values()), verdict_line(outcome)
