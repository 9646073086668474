"""Two drivers started on one checkpoint, again and again: never two that commit.

``python -m proof.two_drivers --rounds 50 --seed 7``. A round costs about half a minute. Each time one of
the two takes the lease, and the other is refused and has to name it; then the holder is drained, killed, or
frozen until another has taken over, and goes on too late. Some drivers believe to be on another host, by a
host name of their own (``unshare --uts``). Afterwards every table has to be as expected, and every batch
committed once, by who held the lease then. Adds a JSON line to var/two_drivers.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES, profile_named
from proof.two_drivers.contest import Contest
from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import USER_SESSIONS, Launch
from tests.support.streams.traced import Traced

_RIGHTS = () if os.geteuid() == 0 else ("--user", "--map-root-user")
# A name that resolves, as Spark requires, and is not the machine's.
OTHER_HOST = ("unshare", *_RIGHTS, "--uts", "sh", "-c", 'hostname localhost && exec "$@"', "sh")


def main(arguments: list[str]) -> int:
    """Play once; returns 1 on a difference."""
    given = _given(arguments)
    # Like Ctrl-C, so that broker and drivers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="stateward-two-drivers-"))
    began = time.monotonic()
    contest = _play(folder, given, lambda line: console.print(line, markup=False, soft_wrap=True))
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": given.seed,
        **_figures(contest),
        "seconds": round(time.monotonic() - began),
        "wrong": contest.wrong,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("a", encoding="utf-8") as lines:
        lines.write(
            json.dumps({**line, "played": [asdict(one) for one in contest.rounds]}, default=str) + "\n"
        )
    console.print_json(json.dumps(line, default=str))
    if contest.wrong:
        console.print(f"logs and tables are in {folder}", markup=False)
    else:
        shutil.rmtree(folder)
    return 1 if contest.wrong else 0


def _given(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.two_drivers", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50, help="how many pairs are started")
    parser.add_argument("--seed", type=int, default=1, help="decides traffic, delays, hosts and ends")
    parser.add_argument("--rate", type=float, default=20.0, help="records a second of event time")
    parser.add_argument("--profile", choices=list(PROFILES), default="storm", help="of the traffic")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "var" / "two_drivers.jsonl")
    return parser.parse_args(arguments)


def _play(folder: Path, given: argparse.Namespace, say: Any) -> Contest:
    port, controller = free_ports(2)
    data = folder / "kafka"
    data.mkdir()
    broker = RunningBroker(
        Broker(data, CHECKOUT / "jars" / "kafka", "127.0.0.1", port, controller, heap_mb=384)
    )
    here = Launch(folder, broker, f"two-drivers-{given.seed}", stream=USER_SESSIONS)
    elsewhere = Launch(folder, broker, here.topic, stream=USER_SESSIONS, prefix=OTHER_HOST)
    # About seven hundred records a round, in slices of twenty seconds.
    plan = Plan(
        profile_named(given.profile),
        seed=given.seed,
        rate=given.rate,
        minutes=max(2.0, 0.6 * given.rounds),
        topics=("user_events",),
    )
    contest = Contest((here, elsewhere), Traced(here, plan), random.Random(given.seed), say)
    try:
        broker.start()
        contest.play(given.rounds)
    finally:
        broker.stop()
    return contest


def _figures(contest: Contest) -> dict[str, Any]:
    rounds = contest.rounds
    thawed = [one.thawed_s for one in rounds if one.thawed_s is not None]
    batches = contest.launch.rows("batch_counts")
    return {
        "rounds": len(rounds),
        "delays_s": [min(one.delay_s for one in rounds), max(one.delay_s for one in rounds)],
        "on_two_hosts": sum(one.hosts == 2 for one in rounds),
        "first_started_won": sum(one.winner.endswith("-a") for one in rounds),
        "named": Counter(one.named or "neither" for one in rounds),
        "ended": Counter(one.ended for one in rounds),
        "thawed_s": [min(thawed), max(thawed)] if thawed else [],
        "epochs": len(contest.holdings()),
        "batches": len(batches),
        "epochs_that_committed": len({row["epoch"] for row in batches}),
        "records": contest.course.sent,
        "rows": contest.course.row_counts(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
