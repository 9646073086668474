"""The lines of `status/<stream>.history.jsonl`, and the series of charts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from stateward.contract.reading import InvalidDocumentError, parse_time
from stateward.contract.stream_control import Failure, failure_of
from stateward.contract.stream_status import Status
from stateward.rendering.charts import Series

_SHORTEST = timedelta(seconds=10)
_LONGEST = timedelta(minutes=10)


@dataclass(frozen=True)
class Sample:
    """One line. A value that the driver did not know yet is None.

    `launched` and `failure`, the reason of the launch and the failure before it, are only in a driver's first
    line.
    """

    at: datetime
    run_id: str
    state: str
    launched: str = ""
    failure: Failure | None = None
    message: str = ""
    batch_id: int | None = None
    batch_duration_ms: int | None = None
    watermark: datetime | None = None
    lag_records: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    state_keys: int | None = None
    delivered: int | None = None


def samples_of(text: str) -> tuple[Sample, ...]:
    """Read the file; lines that are no samples are skipped.

    Returns:
        The samples, the oldest first.
    """
    found = (_sample_of_line(line) for line in text.splitlines())
    return tuple(sorted((sample for sample in found if sample), key=lambda sample: sample.at))


def sample_of_status(status: Status) -> Sample:
    """Read the current sample from a status, whose fields have the same names."""
    known = {name: getattr(status, name) for name in (*_WHOLE, "run_id", "state", "message", "watermark")}
    return Sample(at=status.updated_at, delivered=status.delivered, **known)


def lag(samples: Iterable[Sample]) -> Series:
    """Return the lag, records."""
    return tuple((one.at, float(one.lag_records)) for one in samples if one.lag_records is not None)


def state_bytes(samples: Iterable[Sample]) -> Series:
    """Return the memory of the state store, bytes."""
    return tuple((one.at, float(one.state_bytes)) for one in samples if one.state_bytes is not None)


def state_keys(samples: Iterable[Sample]) -> Series:
    """Return the live keys."""
    return tuple((one.at, float(one.state_keys)) for one in samples if one.state_keys is not None)


def watermark_delay(samples: Iterable[Sample]) -> Series:
    """Return the delay of the watermark behind the clock, seconds."""
    return tuple((one.at, (one.at - one.watermark).total_seconds()) for one in samples if one.watermark)


def stalled_since(samples: Sequence[Sample]) -> datetime | None:
    """Return since when a driver has shown the same batch although records wait, as far as samples go back.

    The supervisor measures this itself, every other second; the page reads it from the samples.
    """
    since = None
    for one in reversed(samples):
        if one.state != "running" or not one.lag_records or one.batch_id != samples[-1].batch_id:
            break
        if one.run_id != samples[-1].run_id:
            break
        since = one.at
    return since


def throughput(samples: Iterable[Sample]) -> Series:
    """Return records delivered per second, between one sample and the next.

    The count starts again with each generation of the checkpoint. There is no value across such a step, nor
    across a pause of minutes.
    """
    counted = [(one.at, one.delivered) for one in samples if one.delivered is not None]
    # Two lines written shortly after each other would look like a burst.
    apart = counted[:1]
    for point in counted[1:]:
        if point[0] - apart[-1][0] >= _SHORTEST:
            apart.append(point)
    return tuple(
        (at, (after - before) / (at - begin).total_seconds())
        for (begin, before), (at, after) in pairwise(apart)
        if after >= before and at - begin <= _LONGEST
    )


def _sample_of_line(line: str) -> Sample | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    return _sample(document) if isinstance(document, dict) else None


def _sample(document: Mapping[str, Any]) -> Sample | None:
    try:
        watermark, launched = document.get("watermark"), str(document.get("launched") or "")
        return Sample(
            at=parse_time(document["at"]),
            run_id=str(document["run_id"]),
            state=str(document["state"]),
            launched=launched,
            failure=failure_of(document, launched),
            message=str(document.get("message") or ""),
            watermark=None if watermark is None else parse_time(watermark),
            delivered=_whole(document.get("delivered", document.get("consumed"))),
            **{name: _whole(document.get(name)) for name in _WHOLE},
        )
    except (KeyError, TypeError, AttributeError, InvalidDocumentError):
        return None


_WHOLE = ("batch_id", "batch_duration_ms", "lag_records", "state_rows", "state_bytes", "state_keys")


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
