"""`python -m benchmarks.sustained`: one contestant for minutes: rate, longest pause, and where the CPU goes.

The topic holds everything before the driver, or a peer, starts. What happens before `--warm-up` seconds are
over is not counted, the end of the topic neither. A pause is the time between two commits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from benchmarks.harness.checkouts import add_checkout
from benchmarks.harness.one_run import Run, about, add_peer, running, stream_of
from benchmarks.harness.results import append_result
from benchmarks.harness.roles import Usage, usage
from benchmarks.harness.workload import Workload
from stateward.project.settings import Settings
from tests.support.waiting import wait_until

_RESULTS = "sustained.jsonl"
# What is counted ends here: the last batches are not full.
_COUNTED = 0.97


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
    add_peer(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measure, check the answer, and print a line of JSON; returns 0 unless the answer was wrong."""
    given = parse(arguments)
    workload = Workload(given.events, given.size, given.keys, given.skew)
    cache = Settings().home / "bench"
    conf = dict(setting.split("=", 1) for setting in given.conf)
    entry = given.peer or stream_of(given, given.stream, given.variant)
    result = {
        "label": given.label,
        **about(entry),
        "stream": entry.contestant.name,
        "variant": entry.variant,
        "conf": conf,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "workload": workload.as_json(),
    }
    with running(entry, workload, cache, bootstrap=given.bootstrap, conf=conf) as run:
        result["load_before"] = run.load_before
        result.update(_measure(run, given.warm_up))
    result["correct"] = run.is_right()
    append_result(cache / _RESULTS, result)
    print(json.dumps(result), flush=True)
    return 0 if result["correct"] else 1


def _measure(run: Run, warm_up_s: float) -> dict[str, Any]:
    """Follow the reader to the end of the topic."""
    from rich.progress import Progress

    moments: list[Moment] = []
    live = 0
    with Progress() as progress:
        bar = progress.add_task("reading", total=run.workload.events)
        for moment in _batches(run):
            moments.append(moment)
            progress.update(bar, completed=moment.delivered)
            live = max(live, run.reader.live_keys())
    run.wait_for_last_row()
    counted = [moment for moment in moments if moment.at - moments[0].at >= warm_up_s]
    assert len(counted) > 1, "nothing is left after the warm-up: use more events"
    commits = run.reader.commits() or [moment.at for moment in moments]
    return {"live_keys": live, **_figures(counted[0], counted[-1], commits)}


def _batches(run: Run) -> Iterator[Moment]:
    """A moment after each batch, but for the end of the topic."""
    reader, delivered = run.reader, 0

    def more() -> int | None:
        code = reader.process.poll()
        assert not code, f"{reader.contestant.name}: exit {code}: see {reader.task.folder}"
        # Flink does not commit the offsets of the last checkpoint of a topic that ends.
        now = reader.delivered() if code is None else run.workload.events
        return now if now > delivered else None

    while delivered < run.workload.events * _COUNTED:
        delivered = wait_until(more, 120, "a batch is committed", poll_s=0.05)
        if reader.process.poll() is None:
            yield Moment(time.time(), delivered, usage(reader.process.pid, run.broker_pid))


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
