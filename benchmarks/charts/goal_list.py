"""The goals that `python -m benchmarks.report` compares with results: what, of which program, how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Goal:
    """One figure, and what it should be.

    Attributes:
        what: With its unit.
        program: The one in `benchmarks` that measures it; `run` measures series, the others single drivers.
        figure: Field of a result, or ``cpu_us``.
        sign: `≥`, `≤` or `<`.
        limit: In the unit of what is shown.
        where: Fields that a result has to have; of a workload those named ``workload.*``.
        least: Fields that have to have at least this value.
        contestant: The one in a series.
        over: Contestant of the same series whose figure is the divisor.
        shorter: Events of a second series: the figure is that of each event that the longer one has more.
        less: Field that is subtracted.
        scale: Factor between the field and what is shown.
        digits: That are shown.
    """

    what: str
    program: str
    figure: str
    sign: str
    limit: float
    where: Mapping[str, Any] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    contestant: str = "stateward"
    over: str = ""
    shorter: int = 0
    less: str = ""
    scale: float = 1
    digits: int = 1


def _workload(**fields: Any) -> dict[str, Any]:
    usual = {"size": 1000, "skew": "uniform", "compression": "lz4", "partitions": 3}
    # A topic with spoilt records is another one.
    wanted = {**usual, "spoilt_percent": None, **fields}
    return {f"workload.{name}": value for name, value in wanted.items()}


def _sustained(keys: int) -> dict[str, Any]:
    return {**_workload(keys=keys), "stream": "stateward", "conf": {}, "correct": True}


_SERIES = _workload(events=2_000_000, keys=20_000)
# PyFlink takes minutes for the longer one.
_SHORT_SERIES = _workload(events=400_000, keys=20_000)
_MANY_KEYS = _workload(events=4_000_000, keys=1_200_000)
_WARM, _LARGE, _HUGE = (_sustained(keys) for keys in (20_000, 1_200_000, 12_000_000))
# A twentieth of the keys may have ended.
_MILLION, _TEN_MILLION = {"live_keys": 950_000}, {"live_keys": 9_500_000}
_STEADY = {"rate": 40_000, "lateness_ms": 1000}
_NINE = {"streams": 9, "records": 450_000, "correct": True}
_PAUSE, _LATE, _PEAK = "longest_pause_s", "p99_ms", "peak_rss_mib"
_LOST = "next batch committed, without copies, s"
_GB_PER_MIB = 2**20 / 1e9

GOALS = (
    Goal(
        "events/s over those of `flink_sql`, 2 M records, cold",
        "run", "events_per_s", "≥", 1.0, _SERIES, over="flink_sql", digits=2,
    ),
    Goal(
        "events/s over those of `flink_sql=rocksdb`, 2 M records, cold",
        "run", "events_per_s", "≥", 1.8, _SERIES, over="flink_sql=rocksdb", digits=2,
    ),
    Goal(
        "CPU µs per record at 20,000 keys, of those after the first 400,000",
        "run", "cpu_s", "≤", 14, _SERIES, shorter=400_000, scale=1e6,
    ),
    Goal("events/s at 20,000 keys, warm", "sustained", "events_per_s", "≥", 110_000, _WARM, digits=0),
    Goal(
        "events/s of `fraud_watch` over those of `stateward`, 2 M records, cold",
        "run", "events_per_s", "≥", 0.9, _SERIES, contestant="fraud_watch", over="stateward", digits=2,
    ),
    Goal(
        "events/s of `fraud_watch` over those of `pyflink_fraud`, 400,000 records, cold",
        "run", "events_per_s", "≥", 5, _SHORT_SERIES, contestant="fraud_watch", over="pyflink_fraud",
    ),
    Goal("events/s at 1 M keys", "sustained", "events_per_s", "≥", 60_000, _LARGE, _MILLION, digits=0),
    Goal(
        "events/s over those of `flink_sql=rocksdb`, 4 M records of 1.2 M users, cold",
        "run", "events_per_s", "≥", 1.0, _MANY_KEYS, over="flink_sql=rocksdb", digits=2,
    ),
    Goal("longest pause at 1 M keys, s", "sustained", _PAUSE, "<", 2, _LARGE, _MILLION),
    Goal("events/s at 10 M keys", "sustained", "events_per_s", "≥", 50_000, _HUGE, _TEN_MILLION, digits=0),
    Goal("longest pause at 10 M keys, s", "sustained", _PAUSE, "<", 2, _HUGE, _TEN_MILLION),
    Goal(
        "p99 from event to row at 40,000/s, eager, s",
        "latency", _LATE, "<", 1.5, {**_STEADY, "emission": "eager"}, scale=1e-3, digits=2,
    ),
    Goal(
        "the same by watermark, beyond the allowed lateness, s",
        "latency", _LATE, "<", 2, {**_STEADY, "emission": "watermark"},
        less="lateness_ms", scale=1e-3, digits=2,
    ),
    Goal("batch of one record, median ms", "idle", "median_batch_ms", "≤", 150, {"partitions": 2}, digits=0),
    Goal("quiet stream, % of a core", "idle", "core_percent", "≤", 1.5, {"partitions": 2}),
    Goal(
        "memory of a quiet stream, GB",
        "idle", "memory_mib", "≤", 0.9, {"partitions": 2}, scale=_GB_PER_MIB, digits=2,
    ),
    Goal(
        "the same, with a page that processes share counted once, GB",
        "idle", "pss_mib", "≤", 0.9, {"partitions": 2}, scale=_GB_PER_MIB, digits=2,
    ),
    Goal("launch to first commit, s", "run", "first_commit_s", "≤", 10, _SERIES),
    Goal("peak memory at full rate, GB", "run", _PEAK, "≤", 2.0, _SERIES, scale=_GB_PER_MIB, digits=2),
    Goal("memory of nine streams that are read and validated, GB", "together", "memory_gb", "≤", 9, _NINE),
    Goal("from their last record to all tables validated, s", "together", "validated_s", "≤", 120, _NINE),
    Goal(
        "SIGKILL to next commit at 1 M keys, local copies lost, s",
        "recovery", _LOST, "≤", 15, {"correct": True}, _MILLION,
    ),
)  # fmt: skip
