"""`python -m benchmarks.sustained`: one driver for minutes: rate, longest pause, and where the CPU goes.

The topic holds everything before the driver starts. What happens before `--warm-up` seconds are over is not
counted, the end of the topic neither. A pause is the time between two commits of a batch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import lmdb
import psutil

from benchmarks.harness.checkouts import Checkout, add_checkout
from benchmarks.harness.fill import fill_topic
from benchmarks.harness.folders import emptied
from benchmarks.harness.fraud_watch import FraudWatch, fraud_answer
from benchmarks.harness.measure import task_of
from benchmarks.harness.oracle import answer_of, expected
from benchmarks.harness.results import append_result
from benchmarks.harness.roles import Usage, usage
from benchmarks.harness.user_sessions import Stateward
from benchmarks.harness.workload import GAP_MS, Events, Workload, end_ms, generate
from benchmarks.peers.task import Task
from benchmarks.run import benchmark_broker
from stateward.project.settings import Settings
from tests.support.spark.launches import Launch
from tests.support.waiting import wait_until

_RESULTS = "sustained.jsonl"
# What is counted ends here: the last batches are not full.
_COUNTED = 0.97


@dataclass(frozen=True)
class Run:
    """What is measured.

    Attributes:
        contestant: The stream.
        task: What it reads, and where it writes.
        workload: What is in the topic.
        events: The same, event by event.
        launch: The installation, which ends the driver.
        process: The driver.
        broker_pid: The broker's process.
        load_before: The machine's load average before the driver was started.
    """

    contestant: Stateward
    task: Task
    workload: Workload
    events: Events
    launch: Launch
    process: subprocess.Popen[bytes]
    broker_pid: int
    load_before: float


@dataclass(frozen=True)
class Moment:
    """What was seen at once.

    Attributes:
        at: Seconds since 1970.
        delivered: Records so far.
        usage: CPU seconds and memory by role.
    """

    at: float
    delivered: int
    usage: dict[str, Usage]


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sustained", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--events", type=int, default=6_000_000, help="(%(default)s)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a record's value (%(default)s)")
    parser.add_argument("--keys", type=int, default=20_000, help="users; five in six are live (%(default)s)")
    parser.add_argument("--skew", choices=("uniform", "zipf"), default="uniform")
    parser.add_argument("--warm-up", type=float, default=30, metavar="S", help="(%(default)s)")
    parser.add_argument("--stream", choices=("stateward", "fraud_watch"), default="stateward")
    parser.add_argument("--variant", default="", help="as in benchmarks.run")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="of Spark")
    parser.add_argument("--label", default="", help="for the line of results")
    parser.add_argument(
        "--bootstrap", help="HOST:PORT of a broker that runs here and may hold the topic already"
    )
    add_checkout(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measure, check the answer, and print a line of JSON; returns 0 unless the answer was wrong."""
    given = parse(arguments)
    workload = Workload(given.events, given.size, given.keys, given.skew)
    cache = Settings().home / "bench"
    conf = dict(setting.split("=", 1) for setting in given.conf)
    result = {
        "label": given.label,
        **given.checkout.origin(),
        "stream": given.stream,
        "variant": given.variant,
        "conf": conf,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "workload": workload.as_json(),
    }
    with running(
        given.stream,
        workload,
        cache,
        bootstrap=given.bootstrap,
        variant=given.variant,
        conf=conf,
        checkout=given.checkout,
    ) as run:
        result["load_before"] = run.load_before
        result.update(_measure(run, given.warm_up))
    answer = answer_of(run.contestant.rows(run.task))
    is_fraud = given.stream == "fraud_watch"
    right = fraud_answer(run.events) if is_fraud else expected(run.events, GAP_MS)
    result["correct"] = answer == right
    append_result(cache / _RESULTS, result)
    print(json.dumps(result), flush=True)
    return 0 if result["correct"] else 1


@contextmanager
def running(
    stream: str,
    workload: Workload,
    cache: Path,
    *,
    bootstrap: str | None = None,
    variant: str = "",
    conf: Mapping[str, str] | None = None,
    checkout: Checkout | None = None,
) -> Iterator[Run]:
    """A driver that reads a topic that is full; it ends with the block.

    Args:
        stream: ``stateward`` or ``fraud_watch``.
        workload: What is in the topic.
        cache: For its folder, which is emptied first.
        bootstrap: A broker that may hold the topic already; None for one of its own, which ends with the
            block too.
        variant: As in `Stateward.start_in`.
        conf: For Spark.
        checkout: Where the driver comes from; this one without it.
    """
    events = generate(workload)
    folder = emptied(cache / "sustained")
    contestant = (FraudWatch if stream == "fraud_watch" else Stateward)(checkout)
    with _broker(bootstrap, cache / "kafka") as (address, broker_pid):
        fill_topic(address, workload, events)
        load_before = round(psutil.getloadavg()[0], 2)
        task = task_of(workload, end_ms(events), folder, address, variant)
        launch = contestant.launch_of(task)
        try:
            process = contestant.start_in(launch, task, conf)
            yield Run(contestant, task, workload, events, launch, process, broker_pid, load_before)
        finally:
            launch.kill_all()


@contextmanager
def _broker(bootstrap: str | None, folder: Path) -> Iterator[tuple[str, int]]:
    if bootstrap is None:
        with benchmark_broker(folder) as broker:
            assert broker.process is not None
            yield broker.bootstrap, broker.process.pid
        return
    port = int(bootstrap.rpartition(":")[2])
    listeners = [
        c for c in psutil.net_connections("tcp") if c.status == "LISTEN" and c.laddr and c.laddr.port == port
    ]
    assert listeners, f"nothing listens at {bootstrap}"
    assert listeners[0].pid is not None, f"the process that listens at {bootstrap} is not to be seen"
    yield bootstrap, listeners[0].pid


def _measure(run: Run, warm_up_s: float) -> dict[str, Any]:
    """Follow the driver to the end of the topic."""
    from rich.progress import Progress

    moments: list[Moment] = []
    live = 0
    with Progress() as progress:
        bar = progress.add_task("reading", total=run.workload.events)
        for moment in _batches(run):
            moments.append(moment)
            progress.update(bar, completed=moment.delivered)
            live = max(live, live_keys(Path(run.task.folder) / "cache"))
    wait_until(lambda: run.contestant.committed_at(run.task, run.process), 300, "the last rows are committed")
    counted = [moment for moment in moments if moment.at - moments[0].at >= warm_up_s]
    assert len(counted) > 1, "nothing is left after the warm-up: use more events"
    return {"live_keys": live, **_figures(counted[0], counted[-1], _commits(Path(run.task.folder)))}


def _batches(run: Run) -> Iterator[Moment]:
    """A moment after each batch, but for the end of the topic."""
    delivered = 0
    while delivered < run.workload.events * _COUNTED:
        status = wait_until(partial(_progress, run, delivered), 120, "a batch is committed", poll_s=0.05)
        delivered = status["delivered"]
        yield Moment(time.time(), delivered, usage(run.process.pid, run.broker_pid))


def _progress(run: Run, delivered: int) -> dict[str, Any] | None:
    """The status, once more has been delivered."""
    launch = run.launch
    assert run.process.poll() is None, f"the driver ended: {launch.log('bench').read_text()[-2000:]}"
    status = launch.status()
    return status if (status.get("delivered") or 0) > delivered else None


def live_keys(cache: Path) -> int:
    """Entries of the copies, which are the keys with a state and one more for each bucket."""
    live = 0
    for data in cache.rglob("data.mdb"):
        with lmdb.open(str(data.parent), readonly=True, lock=False, max_dbs=2) as copy:
            if copy.stat()["entries"]:
                keys = copy.open_db(b"keys", create=False)
                with copy.begin(keys) as transaction:
                    live += transaction.stat(keys)["entries"]
    return live


def _commits(folder: Path) -> list[float]:
    """When each batch was committed (seconds since 1970)."""
    logs = (folder / "tables" / "batch_counts" / "_delta_log").glob("*.json")
    return sorted(log.stat().st_mtime for log in logs)


def _figures(begin: Moment, last: Moment, commits: list[float]) -> dict[str, Any]:
    seconds, records = last.at - begin.at, last.delivered - begin.delivered
    counted = [at for at in commits if begin.at - 1 <= at <= last.at + 1]
    pauses = [after - before for before, after in pairwise(counted)]
    spent = {
        role: replace(now, cpu_s=now.cpu_s - begin.usage.get(role, Usage()).cpu_s)
        for role, now in last.usage.items()
    }
    return {
        "seconds": round(seconds, 1),
        "records": records,
        "events_per_s": round(records / seconds),
        "batches": len(pauses),
        "longest_pause_s": round(max(pauses), 2),
        "median_pause_s": round(sorted(pauses)[len(pauses) // 2], 2),
        "cpu_us": {role: round(one.cpu_s / records * 1e6, 2) for role, one in spent.items()},
        "rss_mib": {role: round(one.rss_bytes / 2**20) for role, one in spent.items()},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
