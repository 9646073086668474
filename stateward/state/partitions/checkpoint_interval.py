"""The optimal checkpoint interval, from the cost of a checkpoint and the rate of failures. Pure.

With ``d`` the cost of a checkpoint and ``M`` the mean time between failures, the interval with the smallest
loss is

* ``sqrt(2 d M)``: J. W. Young, "A first order approximation to the optimum checkpoint interval",
  Communications of the ACM 17(9), 1974, pp. 530-531;
* ``sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d`` for ``d < 2M``, else ``M``: J. T. Daly, "A higher
  order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems
  22(3), 2006, pp. 303-312.

Spark checkpoints every micro-batch, so the interval is the trigger's, and the cost is the fixed cost of a
batch. The formulas consider lost work only; a stream is usually triggered more often, for lower latency. They
show how long a batch may be before failures cost more than batches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stateward.rendering.human_units import format_duration, format_timestamp
from stateward.state.reader.measures import BatchTime

DAY_MS = 86_400_000

# Used if the rate of failures is unknown.
ASSUMED_MTBF_MS = DAY_MS


@dataclass(frozen=True)
class Interval:
    """The formula with its terms, milliseconds.

    Attributes:
        cost_ms: The fixed cost of a batch; None if it could not be measured.
        measured_batches: Number of batches measured.
        mtbf_ms: The mean time between failures.
        is_assumed: Whether ``mtbf_ms`` is assumed.
        mtbf_from: The source of ``mtbf_ms``, as text.
        young_ms: The interval after Young 1974.
        daly_ms: The interval after Daly 2006.
        interval_ms: The current interval: the mean time between two batches; None with fewer than two.
        loss: The share of time lost at the current interval, to fixed costs and repeated work.
        least_loss: The share of time lost at Daly's interval.
    """

    cost_ms: float | None
    measured_batches: int
    mtbf_ms: int
    is_assumed: bool
    mtbf_from: str
    young_ms: float | None
    daly_ms: float | None
    interval_ms: float | None
    loss: float | None
    least_loss: float | None


def young_ms(cost_ms: float, mtbf_ms: float) -> float:
    """Young's first order interval, milliseconds."""
    return math.sqrt(2 * cost_ms * mtbf_ms)


def daly_ms(cost_ms: float, mtbf_ms: float) -> float:
    """Daly's higher order interval, milliseconds."""
    if cost_ms >= 2 * mtbf_ms:
        return mtbf_ms
    share = cost_ms / (2 * mtbf_ms)
    return math.sqrt(2 * cost_ms * mtbf_ms) * (1 + math.sqrt(share) / 3 + share / 9) - cost_ms


def loss(interval_ms: float, cost_ms: float, mtbf_ms: float) -> float:
    """The share of time lost: the cost of checkpoints, and on average half an interval per failure."""
    return cost_ms / interval_ms + interval_ms / (2 * mtbf_ms)


def fixed_cost_ms(times: Sequence[BatchTime]) -> float | None:
    """The fixed cost of a batch: the median duration of the quarter of batches with the fewest records."""
    if not times:
        return None
    by_records = sorted(times, key=lambda time: (time.records, time.duration_ms))
    least = sorted(time.duration_ms for time in by_records[: max(1, len(by_records) // 4)])
    middle = len(least) // 2
    return float(least[middle]) if len(least) % 2 else (least[middle - 1] + least[middle]) / 2


def mean_time_between(failures: int, since_ms: int, until_ms: int) -> tuple[int | None, str]:
    """The recorded mean time between failures (ms), and its source as text.

    Without a failure it is at least the recorded time, which is used if it is longer than the assumed one;
    otherwise the result is None.

    Args:
        failures: Number of restarts after a failure.
        since_ms: Start of the record (ms since 1970 UTC).
        until_ms: End of the record.
    """
    counted_ms = until_ms - since_ms
    counted = format_duration(counted_ms / 1000)
    since = f"{counted} on record, since {format_timestamp(since_ms // 1000 * 1000)} UTC"
    if failures > 0 and counted_ms > 0:
        return counted_ms // failures, f"{failures} restarts after a failure in {since}"
    if counted_ms > ASSUMED_MTBF_MS:
        return counted_ms, f"no restart after a failure in {since}: a lower bound"
    return None, f"assumed: no restart after a failure in {since}"


def interval(times: Sequence[BatchTime], mtbf_ms: int | None, mtbf_from: str = "") -> Interval:
    """Apply the formulas to measured batches.

    Args:
        times: Times of the retained batches, oldest first.
        mtbf_ms: The mean time between failures, or None to assume a day.
        mtbf_from: Its source, as text.
    """
    source = mtbf_from or ("assumed" if mtbf_ms is None else "given")
    cost_ms = fixed_cost_ms(times)
    failures_ms = ASSUMED_MTBF_MS if mtbf_ms is None else mtbf_ms
    actual_ms = _mean_interval_ms(times)
    if not cost_ms:
        return Interval(None, 0, failures_ms, mtbf_ms is None, source, None, None, actual_ms, None, None)
    best_ms = daly_ms(cost_ms, failures_ms)
    return Interval(
        cost_ms,
        len(times),
        failures_ms,
        mtbf_ms is None,
        source,
        young_ms(cost_ms, failures_ms),
        best_ms,
        actual_ms,
        None if not actual_ms else loss(actual_ms, cost_ms, failures_ms),
        loss(best_ms, cost_ms, failures_ms) if best_ms > 0 else None,
    )


def _mean_interval_ms(times: Sequence[BatchTime]) -> float | None:
    batches = times[-1].batch_id - times[0].batch_id if times else 0
    return (times[-1].planned_ms - times[0].planned_ms) / batches if batches else None
