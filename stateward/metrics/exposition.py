"""The samples of every stream in Prometheus' formats, by its own library."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    StateSetMetricFamily,
)

from stateward.control.reconcile.leader_heartbeat import STALE_AFTER
from stateward.metrics.catalogue import FAMILIES, STATES, Family
from stateward.metrics.samples import Sample, samples_of, unreadable
from stateward.pages.access import MayRead, any_dag
from stateward.pages.streams.documents import read_streams
from stateward.pages.streams.view import Documents
from stateward.project.settings import Settings

_LOG = logging.getLogger(__name__)


class StreamsCollector:
    """Reads the streams at each scrape, as `prometheus_client` expects of a collector.

    Args:
        settings: Where everything is.
        readable: Which DAGs the reader may read.
    """

    def __init__(self, settings: Settings, readable: MayRead = any_dag) -> None:
        self._settings = settings
        self._readable = readable

    def collect(self) -> Iterable[Metric]:
        """Return every metric, without the samples that are not known."""
        read = read_streams(self._settings, past=False, readable=self._readable)
        return families(read, datetime.now(UTC))


def exposition(settings: Settings, accept: str = "", readable: MayRead = any_dag) -> tuple[bytes, str]:
    """Return the metrics, and their content type.

    Args:
        settings: Where everything is.
        accept: What the reader understands, as in the header of HTTP; Prometheus' text format if empty.
        readable: Which DAGs the reader may read; streams of others are left out.
    """
    # One of its own: the library's default has metrics of this process, and is everybody's.
    registry = CollectorRegistry()
    registry.register(StreamsCollector(settings, readable))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def families(read: Sequence[Documents], now: datetime) -> list[Metric]:
    """Make the metrics of what was read. A stream that makes no sense never hides the others.

    Args:
        read: What was read of each stream.
        now: The time, aware.
    """
    by_name = {family.name: _empty(family) for family in FAMILIES}
    for one in _each_once(read):
        for sample in _samples(one, now):
            _add(by_name[sample.family.name], sample)
    return list(by_name.values())


def _each_once(read: Sequence[Documents]) -> Iterable[Documents]:
    """A stream's name may be that of another, broken file; two samples of one name are not allowed."""
    by_stream: dict[str, Documents] = {}
    for one in read:
        first = by_stream.get(one.stream)
        told = (
            one
            if first is None
            else Documents(**{**vars(first), "problems": (*first.problems, *one.problems)})
        )
        by_stream[one.stream] = told
    return by_stream.values()


def _samples(read: Documents, now: datetime) -> list[Sample]:
    try:
        return samples_of(read, now, STALE_AFTER)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        # Documents are checked for their fields, and not each field for its type.
        _LOG.warning(
            "stream %s: its documents do not hold what docs/architecture.md says: %s", read.stream, error
        )
        return unreadable(read.stream)


def _empty(family: Family) -> Metric:
    kinds: dict[str, type[GaugeMetricFamily | CounterMetricFamily | StateSetMetricFamily]] = {
        "gauge": GaugeMetricFamily,
        "counter": CounterMetricFamily,
        "stateset": StateSetMetricFamily,
    }
    return kinds[family.kind](family.name, family.help, labels=family.labels)


def _add(metric: Metric, sample: Sample) -> None:
    if isinstance(metric, StateSetMetricFamily):
        metric.add_metric(sample.labels, {state: state == sample.value for state in STATES})
    elif isinstance(metric, GaugeMetricFamily | CounterMetricFamily):
        metric.add_metric(sample.labels, float(sample.value))
