"""`stateward replay`."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from stateward.platform.running import running_settings
from stateward.platform.topics import ensure_topic
from stateward.project.durations import parse_duration
from stateward.project.settings import Settings
from stateward.replay.pacing import Pacer
from stateward.replay.records import LatestEventTime
from stateward.replay.send import Outcome, Sender
from stateward.replay.source import LineSource
from stateward.replay.tick import tick_after as default_tick_after

_REFRESH_EVERY = 100


class NothingToTickError(RuntimeError):
    """A tick was requested, but no record has an event time."""


def run(
    file: str,
    *,
    topic: str,
    rate: float | None,
    tick: bool,
    tick_after: str | None,
    partitions: int,
    key_field: str,
) -> None:
    """Send a file, with a progress bar; then print the counts."""
    ahead = parse_duration(tick_after) if tick_after is not None else None
    outcome, ticked = replay_file(
        file,
        topic=topic,
        settings=running_settings(Settings()),
        rate=rate,
        tick=tick,
        ahead=ahead,
        partitions=partitions,
        key_field=key_field,
        console=Console(stderr=True),
    )
    at = f" at {ticked.isoformat()}" if ticked else ""
    print(
        f"sent {outcome.sent} records to {topic} ({outcome.unkeyed} without a key), "
        f"{outcome.failed} failed, {outcome.ticks} ticks{at}"
    )


def replay_file(
    file: str,
    *,
    topic: str,
    settings: Settings,
    rate: float | None = None,
    tick: bool = False,
    ahead: timedelta | None = None,
    partitions: int = 3,
    key_field: str = "user_id",
    console: Console | None = None,
) -> tuple[Outcome, datetime | None]:
    """Send a file to a topic.

    Returns:
        The counts of records, and the time of the tick, if there was one.

    Raises:
        OSError: the file cannot be read.
        DeliveryError: a record was not acknowledged.
        NothingToTickError: a tick was requested, but no event time could be read.
    """
    pacer = Pacer(rate, time.monotonic, time.sleep)
    latest = LatestEventTime(datetime.now(UTC))
    with LineSource(file) as source:
        count = ensure_topic(
            settings.kafka_bootstrap,
            topic,
            partitions,
            create=settings.may_create_topics,
            to_write=True,
        )
        sender = Sender(settings.kafka_bootstrap, topic)
        with _Bar(source, sender.outcome, console) as bar:
            sender.send_lines(source, key_field=key_field, pacer=pacer, latest=latest, on_line=bar.advance)
    if not tick:
        return sender.outcome, None
    if latest.value is None:
        raise NothingToTickError(
            f"{file}: no record has a readable event_time, so there is no time to tick; "
            f"the {sender.outcome.sent} records were sent"
        )
    moment = latest.value + (ahead if ahead is not None else default_tick_after(topic, settings.streams))
    sender.send_ticks(moment, count)
    return sender.outcome, moment


class _Bar:
    """Progress by bytes of the file, which are known before its number of lines is."""

    def __init__(self, source: LineSource, outcome: Outcome, console: Console | None) -> None:
        self._source = source
        self._outcome = outcome
        self._lines = 0
        columns = (
            TextColumn("replay"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[records]} records"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=console is None)
        self._task = self._progress.add_task("replay", total=source.total_bytes, records=0)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._refresh()
        self._progress.stop()

    def advance(self) -> None:
        """Count one line; the bar itself is moved now and then, for it costs more than a record does."""
        self._lines += 1
        if self._lines % _REFRESH_EVERY == 0:
            self._refresh()

    def _refresh(self) -> None:
        self._progress.update(self._task, completed=self._source.bytes_read, records=self._lines)
