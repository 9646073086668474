"""Samples of py-spy and Flight Recorder, and the CPU time they stand for."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.roles import ENDED, Thread, ThreadTimes

Samples = Counter[tuple[str, ...]]
"""Number of samples by stack, outermost frame first."""

Stacks = dict[tuple[str, ...], float]
"""CPU time by stack, outermost frame first."""

_PYTHON = 0
_TELLING = ("org/apache/", "org.apache.", "io/delta/", "io.delta.", "org/rocksdb/", "org.rocksdb.")
_DIGITS = re.compile(r"[-#:/]?\d[\d.]*")


def read(recording: Path) -> dict[int, Samples]:
    """Samples by thread id; those of a Python process are all under 0, for its main thread and any other.

    Args:
        recording: Of Flight Recorder if it ends with ``.jfr``, else of py-spy, raw; no samples if not there.
    """
    if not recording.exists():
        return {}
    return _java(recording) if recording.suffix == ".jfr" else {_PYTHON: _python(recording)}


def shared(used: ThreadTimes, samples: Mapping[int, Samples]) -> Stacks:
    """CPU seconds by stack: what a thread has used is shared out among its samples.

    A thread without samples is one block with its name, in which numbers do not count.
    """
    found: Stacks = defaultdict(float)
    known = {thread.id for thread in used}
    ended: Samples = Counter()
    for thread_id, stacks in samples.items():
        if thread_id not in known and thread_id != _PYTHON:
            ended.update(stacks)
    for thread, cpu_s in used.items():
        stacks = ended if thread == ENDED else _of(thread, samples)
        count = sum(stacks.values())
        if not count:
            found[(_name(thread),)] += cpu_s
        for stack, times in stacks.items():
            found[stack] += cpu_s * times / count
    return found


def _of(thread: Thread, samples: Mapping[int, Samples]) -> Samples:
    if _PYTHON in samples:
        # Threads of Python have the name of the program; those of libraries give themselves one.
        return samples[_PYTHON] if thread.name.startswith("python") else Counter()
    return samples.get(thread.id, Counter())


def _name(thread: Thread) -> str:
    return _DIGITS.sub("", thread.name).strip() or thread.name


def _python(recording: Path) -> Samples:
    found: Samples = Counter()
    for line in recording.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        found[tuple(_python_frame(frame) for frame in stack.split(";"))] += int(count)
    shortest = min((len(stack) for stack in found), default=0)
    same = 0
    while same < shortest - 1 and len({stack[same] for stack in found}) == 1:
        same += 1
    return Counter({stack[same:]: count for stack, count in found.items()})


def _python_frame(frame: str) -> str:
    name, _, place = frame.partition(" (")
    return f"{name} {Path(place.partition(':')[0].rstrip(')')).stem}"


def _java(recording: Path) -> dict[int, Samples]:
    command = ["jfr", "print", "--json", "--stack-depth", "64", "--events", "jdk.ExecutionSample"]
    printed = subprocess.run([*command, str(recording)], capture_output=True, text=True, check=True).stdout
    found: dict[int, Samples] = defaultdict(Counter)
    for event in json.loads(printed)["recording"]["events"]:
        values = event["values"]
        thread, trace = values["sampledThread"], values["stackTrace"]
        if thread is None or trace is None:
            continue
        frames = _told(frame["method"] for frame in reversed(trace["frames"]))
        name = _DIGITS.sub("", str(thread["javaName"] or thread["osName"])).partition(" for ")[0]
        found[int(thread["osThreadId"])][(name.strip()[:40], *frames)] += 1
    return found


def _told(methods: Iterable[dict[str, Any]]) -> list[str]:
    """Spark's frames and the innermost one; in between is plumbing of Java and Scala."""
    named = [(method["type"]["name"], method["name"]) for method in methods]
    kept = [
        (kind, name)
        for kind, name in named[:-1]
        if kind.startswith(_TELLING) and "$anonfun" not in name and "$Lambda" not in kind
    ]
    return [f"{re.split('[./]', kind)[-1]}.{name}" for kind, name in (*kept, *named[-1:])]
