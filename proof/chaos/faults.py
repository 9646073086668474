"""The faults: each one selects its target, is injected for real, and reports its target."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import psutil

from proof.chaos.disk import Disk
from proof.chaos.feed import ADDED, GARBAGE_PARTITION, PARTITIONS
from proof.chaos.installation import Platform
from proof.chaos.neighbours import HOUR, YEAR, ahead, garbage
from proof.chaos.schedule import pick
from proof.chaos.wrong_clock import library, set_clock
from stateward.platform.parts.registry import API_SERVER, DAG_PROCESSOR, KAFKA, SCHEDULER, TRIGGERER, Part
from stateward.platform.processes import drivers

_FULL_S = 25.0
_OFF_S = 600


class NoVictimError(Exception):
    """The fault has no target at this moment."""


class Struck(NamedTuple):
    """The target of a fault: a text, and the stream if it affects only one."""

    what: str
    stream: str | None = None


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: Name in the report.
        weight: Relative frequency.
        strike: Injects it; the argument selects one of several targets.
        what: A description in one line.
    """

    name: str
    weight: float
    strike: Callable[[Platform, float], Struck]
    what: str


def kill_driver(platform: Platform, dice: float) -> Struck:
    """SIGKILL to the JVM of one driver, but not to its Python."""
    found = _by_stream(platform, _is_jvm)
    if not found:
        raise NoVictimError("no driver was there")
    stream, processes = pick(sorted(found.items()), dice)
    return Struck(f"driver of {stream}, {_kill(processes)}", stream)


def kill_workers(platform: Platform, dice: float) -> Struck:
    """SIGKILL to all Python workers of one driver, and to the process that forks them."""
    found = _by_stream(platform, _is_worker)
    if not found:
        raise NoVictimError("no driver had Python workers")
    stream, processes = pick(sorted(found.items()), dice)
    return Struck(f"Python workers of {stream}, {_kill(processes)}", stream)


def kill_part(part: Part, platform: Platform, dice: float) -> Struck:
    """SIGKILL to one part of the platform, but not to its children."""
    state = platform.parts().get(part.name)
    if state is None or state.pid is None:
        raise NoVictimError(f"{part.name} was not there ({state.state if state else 'no supervisor'})")
    return Struck(f"{part.name}, {_kill([psutil.Process(state.pid)])}")


def kill_everything(platform: Platform, dice: float) -> Struck:
    """SIGKILL to every process at once; then `stateward up`."""
    owned = platform.processes()
    # First the supervisor, which would start the others again.
    owned.sort(key=lambda one: (one.part is not None, one.stream is not None))
    _kill(one.process for one in owned)
    platform.up()
    return Struck(f"all {len(owned)} processes, then `stateward up`")


def fill_disk(what: str, disk_of: Callable[[Platform], Disk], platform: Platform, dice: float) -> Struck:
    """Fill a disk for a while."""
    disk = disk_of(platform)
    if disk.problem:
        raise NoVictimError(f"no disk of its own: {disk.problem}")
    used = disk.fill()
    timer = threading.Timer(_FULL_S, disk.free)
    timer.daemon = True
    timer.start()
    return Struck(f"the disk of the {what}, full at {used / 2**20:.0f} MiB for {_FULL_S:.0f} s")


def send_ahead(by: timedelta, platform: Platform, dice: float) -> Struck:
    """Send events of a producer whose clock is ahead, in event time and in Kafka's timestamps."""
    feed = pick(platform.feeds, dice)
    records = ahead(feed.sent, by, datetime.now(UTC), dice)
    if not records:
        raise NoVictimError(f"nothing was sent to {feed.topic} yet")
    feed.send_others(records)
    return Struck(f"{len(records)} events to {feed.topic}, {by} ahead")


def send_garbage(platform: Platform, dice: float) -> Struck:
    """Send garbage to a partition that has nothing else."""
    feed = pick(platform.feeds, dice)
    records = garbage(len(feed.sent))
    feed.send_others([(record, None) for record in records], GARBAGE_PARTITION)
    return Struck(f"{len(records)} records to partition {GARBAGE_PARTITION} of {feed.topic}")


def add_partitions(platform: Platform, dice: float) -> Struck:
    """Add partitions to a topic in use; once for each topic."""
    feeds = [feed for feed in platform.feeds if feed.partitions == PARTITIONS]
    if not feeds:
        raise NoVictimError("every topic has got its partitions")
    feed = pick(feeds, dice)
    feed.add_partitions()
    return Struck(f"{feed.topic} has {feed.partitions} partitions")


def move_clock(seconds: int, platform: Platform, dice: float) -> Struck:
    """Kill a driver; the next one of its stream has a wrong clock."""
    if library() is None:
        raise NoVictimError("no libfaketime here (Debian: faketime)")
    found = _by_stream(platform, _is_jvm)
    if not found:
        raise NoVictimError("no driver was there")
    stream, processes = pick(sorted(found.items()), dice)
    set_clock(platform.clocks, stream, seconds)
    return Struck(f"driver of {stream}, {_kill(processes)}; the next one is {seconds:+d} s off", stream)


_ALL = (
    Fault("driver", 3, kill_driver, "`kill -9` of the JVM of a stream's driver"),
    Fault("workers", 3, kill_workers, "`kill -9` of all Python workers of a driver"),
    Fault("broker", 2, partial(kill_part, KAFKA), "`kill -9` of the Kafka broker"),
    Fault("scheduler", 1, partial(kill_part, SCHEDULER), "`kill -9` of Airflow's scheduler"),
    Fault("triggerer", 1, partial(kill_part, TRIGGERER), "`kill -9` of Airflow's triggerer"),
    Fault("api-server", 1, partial(kill_part, API_SERVER), "`kill -9` of Airflow's API server"),
    Fault("dag-processor", 1, partial(kill_part, DAG_PROCESSOR), "`kill -9` of Airflow's DAG processor"),
    Fault("everything", 1, kill_everything, "`kill -9` of every process, then `stateward up`"),
    Fault(
        "disk-full",
        1,
        partial(fill_disk, "data", attrgetter("disk")),
        f"the disk of the data is full for {_FULL_S:.0f} s",
    ),
    Fault(
        "copies-full",
        1,
        partial(fill_disk, "copies", attrgetter("cache")),
        f"the disk of the copies of states is full for {_FULL_S:.0f} s",
    ),
    Fault("hour-ahead", 1, partial(send_ahead, HOUR), "a producer whose clock is an hour ahead"),
    Fault("year-ahead", 1, partial(send_ahead, YEAR), "a producer whose clock is a year ahead"),
    Fault("garbage", 1, send_garbage, "garbage to a partition of nothing else"),
    Fault("partitions", 1, add_partitions, f"{ADDED} partitions are added to a topic, once to each"),
    Fault("clock-ahead", 1, partial(move_clock, _OFF_S), "a driver ends; the next one is ten minutes ahead"),
    Fault(
        "clock-behind", 1, partial(move_clock, -_OFF_S), "a driver ends; the next one is ten minutes behind"
    ),
)
FAULTS = {fault.name: fault for fault in _ALL}


def _by_stream(
    platform: Platform, wanted: Callable[[psutil.Process], bool]
) -> dict[str, list[psutil.Process]]:
    """The matching processes of each stream's driver; streams without any are left out."""
    found = {
        stream: [process for process in family if wanted(process)]
        for stream, family in drivers(platform.processes()).items()
        if stream in platform.streams
    }
    return {stream: processes for stream, processes in found.items() if processes}


def _is_jvm(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() == "java"
    return False


def _is_worker(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        command = " ".join(process.cmdline())
        return "pyspark" in command and "driver.py" not in command
    return False


def _kill(processes: Iterable[psutil.Process]) -> str:
    """Kill processes; returns their description."""
    killed = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            killed.append(str(process.pid))
    if not killed:
        raise NoVictimError("they had just ended")
    return f"{'process' if len(killed) == 1 else 'processes'} {', '.join(killed)}"
