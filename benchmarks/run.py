"""`python -m benchmarks.run`: contestants on the same topic, in turns, each output checked.

Results are lines of JSON in `var/bench/results.jsonl`; `python -m benchmarks.report` makes the page of them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from benchmarks.harness.checkouts import Checkout, CheckoutError, other_checkout
from benchmarks.harness.contestants import PEER_LIST, Contestant
from benchmarks.harness.fill import benchmark_broker, fill
from benchmarks.harness.measure import Course, Entry, measure
from benchmarks.harness.oracle import Answer, expected
from benchmarks.harness.results import append_result
from benchmarks.harness.workload import GAP_MS, Events, Workload, end_ms, generate
from stateward.project.settings import Settings
from tests.support.kafka.broker import RunningBroker

# Late records are in the second half. In the first two batches of a stream, 400,000 records, none is late.
_LEAST_SPOILT = 1_000_000
_TAKE_SPOILT = ("stateward", "fraud_watch", "flink_sql", "pyflink_fraud")


@dataclass(frozen=True)
class Options:
    """What to run.

    Attributes:
        workload: of the topic.
        entries: contestants with their variants, in order.
        runs: how often each.
        timeout_s: for one run.
        keep: leave the folders of the runs.
    """

    workload: Workload
    entries: tuple[Entry, ...]
    runs: int
    timeout_s: float
    keep: bool


def contestants(checkout: Checkout | None = None) -> dict[str, Contestant]:
    """All contestants by name; those of another checkout only are its streams."""
    from benchmarks.harness.fraud_watch import PYFLINK_FRAUD, FraudWatch
    from benchmarks.harness.user_sessions import SessionWindows, Stateward

    streams = (Stateward(checkout), SessionWindows(checkout), FraudWatch(checkout))
    return {one.name: one for one in (*(() if checkout else (*PEER_LIST, PYFLINK_FRAUD)), *streams)}


def parse(arguments: list[str]) -> Options:
    """Read the command line."""
    usual = Workload()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=usual.events, help="(%(default)s)")
    parser.add_argument(
        "--size", type=int, default=usual.size, help="bytes of a record's value (%(default)s)"
    )
    parser.add_argument("--keys", type=int, default=usual.keys, help="users (%(default)s)")
    parser.add_argument("--skew", choices=("uniform", "zipf"), default=usual.skew)
    parser.add_argument("--compression", choices=("none", "lz4", "zstd"), default=usual.compression)
    parser.add_argument("--partitions", type=int, default=usual.partitions, help="of the topic (%(default)s)")
    parser.add_argument(
        "--spoilt",
        type=int,
        default=0,
        metavar="PERCENT",
        choices=range(34),
        help="more records of each of three kinds: repeated, late, not JSON (%(default)s); for "
        + ", ".join(_TAKE_SPOILT),
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each contestant, in turns (%(default)s)")
    parser.add_argument(
        "--only", metavar="NAME[=VARIANT],...", help=f"of {', '.join(contestants())}; a name may come twice"
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="a checkout of another commit, with its own .venv and jars: its streams run in turns with these",
    )
    parser.add_argument("--timeout", type=float, default=1800, metavar="S", help="for one run (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the folders of the runs")
    given = parser.parse_args(arguments)
    known = contestants()
    try:
        before = contestants(other_checkout(given.before)) if given.before else {}
    except CheckoutError as error:
        parser.error(f"--before: {error}")
    if given.spoilt and given.events < _LEAST_SPOILT:
        parser.error(
            f"--spoilt: expected --events {_LEAST_SPOILT} or more: nothing is late in the first batches"
        )
    entries = []
    for text in (given.only or ",".join(known)).split(","):
        name, _, variant = text.strip().partition("=")
        if name not in known:
            parser.error(f"--only: {name!r} is none of {', '.join(known)}")
        if given.spoilt and name not in _TAKE_SPOILT:
            parser.error(f"--spoilt: {name} does not leave out repeated events")
        entries += [Entry(one, variant) for one in (before.get(name), known[name]) if one]
    workload = replace(
        Workload(given.events, given.size, given.keys, given.skew, given.compression),
        partitions=given.partitions,
        spoilt_percent=given.spoilt,
    )
    return Options(workload, tuple(entries), given.runs, given.timeout, given.keep)


def main(arguments: list[str]) -> int:
    """Run everything; returns 0 when every output was right."""
    options = parse(arguments)
    cache = Settings().home / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(cache / "lock", timeout=0):
            return _run_all(options, cache)
    except Timeout:
        print(f"bench: another benchmark runs in {cache}: wait for it, or end it")
        return 1


def _run_all(options: Options, cache: Path) -> int:
    series = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    jars = {entry.contestant.name: entry.contestant.prepare(cache) for entry in options.entries}
    wrong = 0
    # Only failed runs are left from before.
    shutil.rmtree(cache / "runs", ignore_errors=True)
    with benchmark_broker(cache / "kafka") as broker:
        events = generate(options.workload)
        answers = _answers(options, events)
        _fill_topics(broker, options, events)
        course = Course(
            broker=broker,
            workload=options.workload,
            answers=answers,
            end_ms=end_ms(events),
            folder=cache / "runs",
            jars=jars,
            timeout_s=options.timeout_s,
            keep=options.keep,
        )
        for number in range(1, options.runs + 1):
            for entry in options.entries:
                result = {"series": series, "run": number, **measure(entry, course)}
                wrong += not result["correct"]
                append_result(cache / "results.jsonl", result)
                _tell(f"{number}/{options.runs} {entry.name}: {_summary(result)}")
    return 1 if wrong else 0


def _answers(options: Options, events: Events) -> dict[str, Answer]:
    """What each contestant has to find."""
    from benchmarks.harness.fraud_watch import FRAUD_NAMES, fraud_answer

    sessions = expected(events, GAP_MS)
    _tell(f"{options.workload.name}: {sessions.sessions:,} sessions of {sessions.events:,} events expected")
    answers = {entry.contestant.name: sessions for entry in options.entries}
    if frauds := answers.keys() & FRAUD_NAMES:
        answers.update(dict.fromkeys(frauds, fraud_answer(events)))
    return answers


def _fill_topics(broker: RunningBroker, options: Options, events: Events) -> None:
    for needs_flush in sorted({entry.contestant.needs_flush for entry in options.entries}):
        topic = broker.create_topic(options.workload.topic(needs_flush), options.workload.partitions)
        fill(broker.bootstrap, topic, options.workload, events, flush_users=needs_flush)


def _summary(result: dict[str, object]) -> str:
    if result["problem"]:
        return f"FAILED: {result['problem']}"
    return (
        f"{result['events_per_s']:,.0f} events/s, {result['consume_s']:.1f} s after the first read, "
        f"{result['total_s']:.1f} s in all, {result['cpu_s']:.1f} CPU s, {result['peak_rss_mib']:,.0f} MiB"
    )


def _tell(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        # All processes have ended; the measurements are in the results.
        print("bench: interrupted")
        sys.exit(130)
