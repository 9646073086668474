"""The advisor: how many partitions, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stateward.state.partitions.advice import Measured, advise
from stateward.state.verbs.advise import busiest_hour

GB = 1024**3
QUIET = Measured(partitions=4, state_bytes=10_000_000, keys=50_000, records_per_s=500, cores=4, buckets=64)


@pytest.mark.parametrize(
    ("changes", "partitions", "last_reason"),
    [
        pytest.param({}, 4, "4, a multiple of the 4 cores", id="small: one for each core"),
        pytest.param({"partitions": 2}, 4, "a multiple of the 4 cores", id="a core would be idle"),
        pytest.param({"partitions": 7}, 7, "7, the current number: 4 would do", id="a few too many stay"),
        pytest.param({"partitions": 40}, 4, "a multiple of the 4 cores", id="far too many go"),
        pytest.param({"state_bytes": 5 * GB}, 12, "12, a multiple of the 4 cores", id="by size"),
        pytest.param(
            {"cores": 1, "state_bytes": 9_000_000, "most_bytes": 1_000_000},
            9,
            "at most 1,000,000",
            id="small ones",
        ),
        pytest.param({"state_bytes": 4 * GB}, 8, "8 for 4,294,967,296 bytes", id="by size, even already"),
        pytest.param(
            {"records_per_s": 100_000}, 4, "4 for 100,000 records/s", id="by rate, the cores suffice"
        ),
        pytest.param(
            {"cores": 24, "records_per_s": 200_000}, 16, "16, for 64 buckets", id="no more than buckets allow"
        ),
        pytest.param(
            {"cores": 16, "buckets": None}, 16, "a multiple of the 16 cores", id="native, many cores"
        ),
        pytest.param({"cores": 32, "buckets": 8}, 2, "2, for 8 buckets", id="few buckets"),
        pytest.param({"cores": 32, "buckets": 2, "partitions": 1}, 1, "1, for 2 buckets", id="two buckets"),
        pytest.param({"keys": 1800}, 1, "1, for 1,800 keys", id="few keys"),
        pytest.param({"keys": 0, "state_bytes": 0, "records_per_s": 0}, 1, "1, for 0 keys", id="nothing yet"),
        pytest.param(
            {"keys": 100, "state_bytes": 3 * GB}, 6, "6, for 100 keys", id="few keys, but they are large"
        ),
    ],
)
def test_a_number_with_its_reasons(changes: dict[str, Any], partitions: int, last_reason: str) -> None:
    advice = advise(replace(QUIET, **changes))

    assert advice.partitions == partitions
    assert last_reason in advice.reasons[-1]


@pytest.mark.parametrize(
    ("keys", "enough", "said"),
    [
        (50_000, 27_000, "27,000 for a core, three quarters of the 36,000 measured"),
        (1_000_000, 14_250, "14,250 for a core, three quarters of the 19,000 measured"),
    ],
)
def test_a_core_takes_the_measured_rate_minus_headroom(keys: int, enough: int, said: str) -> None:
    stream = replace(QUIET, cores=2, partitions=2, keys=keys)
    assert not [one for one in advise(replace(stream, records_per_s=enough)).reasons if "records/s" in one]
    assert said in advise(replace(stream, records_per_s=enough + 1)).reasons[0]


def test_an_impossible_measurement_is_an_error() -> None:
    with pytest.raises(ValueError, match="cores: expected 1 or more, found 0"):
        advise(replace(QUIET, cores=0))
    with pytest.raises(ValueError, match="buckets: expected 1 or more, found 0"):
        advise(replace(QUIET, buckets=0))


def test_the_busiest_hour_is_the_required_rate() -> None:
    start = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)

    def at(minutes: float) -> datetime:
        return start + timedelta(minutes=minutes)

    assert busiest_hour([]) == 0
    assert busiest_hour([(at(0), 6000)]) == 100, "a single batch counts as a minute"
    assert busiest_hour([(at(0), 3000), (at(10), 3000)]) == 10
    # Two minutes are an hour, if a day has 48.
    assert busiest_hour([(at(0), 120), (at(1), 120), (at(10), 360)], hour_s=120) == 3
    assert busiest_hour([(at(0), 7200), (at(65), 3600), (at(90), 3600), (at(130), 10)]) == 2
