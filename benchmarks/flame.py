"""`python -m benchmarks.flame`: where each microsecond of a record goes, as a picture.

A driver reads a topic that is full already. Once it is warm, its Python processes are sampled by py-spy, its
JVM by Flight Recorder, and the CPU time of every thread is read from the system before and after. A thread's
samples share what it has used; a thread without samples, such as librdkafka's, is one block. So the widths
add up to the CPU time of a record.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.charts import flame_stacks
from benchmarks.charts.flame_chart import draw_flames
from benchmarks.charts.flame_stacks import Stacks
from benchmarks.harness.checkouts import add_checkout
from benchmarks.harness.environments import emptied, python_of
from benchmarks.harness.one_run import Run, running, stream_of
from benchmarks.harness.roles import BROKER, JVM, ROLES, ThreadTimes, role_of, spent, thread_times
from benchmarks.harness.workload import Workload
from stateward.project.settings import CHECKOUT, Settings
from tests.support.waiting import wait_until

_IMAGES = CHECKOUT / "docs" / "images"
_RATE_HZ = 200


def main(arguments: list[str]) -> int:
    """Record, and write the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flame", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=6_000_000, help="(%(default)s)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a record's value (%(default)s)")
    parser.add_argument("--keys", type=int, default=20_000, help="users (%(default)s)")
    parser.add_argument("--warm-up", type=int, default=2_000_000, help="records (%(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="of recording (%(default)s)")
    parser.add_argument("--stream", choices=("stateward", "fraud_watch"), default="stateward")
    parser.add_argument("--variant", default="", help="as in benchmarks.run, such as c1")
    add_checkout(parser)
    given = parser.parse_args(arguments)
    cache = Settings().home / "bench"
    py_spy = python_of("py-spy", cache).parent / "py-spy"
    workload = Workload(given.events, given.size, given.keys)
    with running(stream_of(given, given.stream, given.variant), workload, cache) as run:
        stacks = _record(run, given.warm_up, given.seconds, py_spy, cache / "flame")
    name = "user_sessions" if given.stream == "stateward" else given.stream
    path = _IMAGES / f"flame-{name}-{given.keys}keys{'-before' if given.checkout.is_before else ''}.svg"
    total = sum(stacks.values())
    title = f"{name}: CPU per record of {given.size:,} B, {given.keys:,} users: {total:.1f} µs"
    draw_flames(stacks, path, title)
    print(f"{title}: {path}", flush=True)
    return 0


def _record(run: Run, warm_up: int, seconds: int, py_spy: Path, folder: Path) -> Stacks:
    """CPU time in microseconds per record, by role, thread and stack."""
    emptied(folder)
    wait_until(
        lambda: run.reader.delivered() >= warm_up,
        600,
        lambda: f"{warm_up:,} records are read: {run.reader.delivered():,}",
    )
    roles = _processes(run)
    begin = _next_commit(run)
    before = _times(roles)
    recorders = [_recorder(pid, role, seconds, py_spy, folder) for pid, role in roles.items()]
    for recorder in recorders:
        recorder.wait(seconds + 60)
    for pid in (pid for pid, role in roles.items() if role == JVM):
        _flight_recorder(pid, "JFR.stop", f"filename={_recording(folder, pid, JVM)}").wait(60)
    # The samples say only how the time is shared out, so it may be counted to the end of the batch.
    records = _next_commit(run) - begin
    after = _times(roles)
    found: Stacks = defaultdict(float)
    for pid, role in roles.items():
        used = spent(before.get(pid, {}), after.get(pid, {}))
        samples = flame_stacks.read(_recording(folder, pid, role))
        for stack, cpu_s in flame_stacks.shared(used, samples).items():
            found[(role, *stack)] += cpu_s * 1e6 / records
    return found


def _processes(run: Run) -> dict[int, str]:
    root = psutil.Process(run.reader.process.pid)
    found = {run.broker_pid: BROKER}
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.Error):
            found[process.pid] = role_of(process)
    return found


def _times(roles: Mapping[int, str]) -> dict[int, ThreadTimes]:
    return {pid: thread_times(pid) for pid in roles}


def _next_commit(run: Run) -> int:
    """How many records have been read when a batch is committed, which is waited for."""
    before = run.reader.delivered()
    return wait_until(
        lambda: (now := run.reader.delivered()) > before and now,
        120,
        "a batch is committed: use more events",
        0.02,
    )


def _recording(folder: Path, pid: int, role: str) -> Path:
    # The suffix is what the program `jfr` insists on.
    return folder / f"{pid}.{'jfr' if role == JVM else 'txt'}"


def _recorder(pid: int, role: str, seconds: int, py_spy: Path, folder: Path) -> subprocess.Popen[bytes]:
    assert role in ROLES
    out = _recording(folder, pid, role)
    if role == BROKER:
        return subprocess.Popen(["true"])
    if role == JVM:
        return _flight_recorder(pid, "JFR.start", "settings=profile")
    command = [str(py_spy), "record", "-p", str(pid), "-d", str(seconds), "-r", str(_RATE_HZ)]
    return subprocess.Popen(
        [*command, "--function", "--nonblocking", "-f", "raw", "-o", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _flight_recorder(pid: int, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["jcmd", str(pid), *arguments, "name=flame"], stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
