"""The full proof: every stream, on several seeds, killed with -9 over and over, compared row for row.

``python -m proof.kills --seeds 3 --minutes 5 --kills 10``, or ``make truth``. Not in CI: a kill costs
some ten seconds, the start of a driver. Prints a table, and adds a JSON line per stream and seed to
var/truth.jsonl.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proof.traffic.generate import Plan
from proof.traffic.profiles import PROFILES, profile_named
from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import (
    ACTION_COUNTS,
    DEVICE_LIFECYCLE,
    EVENT_WINDOWS,
    FRAUD_WATCH,
    INTRUSION_PATTERNS,
    PAYMENT_AUTH_JOIN,
    RAW_EVENTS,
    SESSION_WINDOWS,
    USER_ACTIVITY,
    USER_SESSIONS,
    Launch,
)
from tests.support.streams.oracle import STREAMS
from tests.support.streams.traffic_proof import Proof, prove

_ALL = (
    USER_SESSIONS,
    USER_ACTIVITY,
    FRAUD_WATCH,
    DEVICE_LIFECYCLE,
    INTRUSION_PATTERNS,
    EVENT_WINDOWS,
    PAYMENT_AUTH_JOIN,
    SESSION_WINDOWS,
    ACTION_COUNTS,
    RAW_EVENTS,
)
LAUNCHABLE = {stream.name: stream for stream in _ALL}
# The rows of the other streams are known in advance; `raw_events` reads every topic.
TOPICS = {
    **{name: (topic,) for name, topic in STREAMS.items()},
    "action_counts": ("user_events",),
    "raw_events": (),
}


def main(arguments: list[str]) -> int:
    """Test every stream with every seed; returns 1 on a difference."""
    options = _options(arguments)
    # Like Ctrl-C, so that broker and drivers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console()
    proofs: list[tuple[str, int, Proof]] = []
    with tempfile.TemporaryDirectory(prefix="stateward-truth-") as folder, _broker(Path(folder)) as broker:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for name in options.streams:
                console.print(f"{name}, seed {seed} ...", highlight=False)
                proof = _prove(broker, Path(folder) / f"{name}-{seed}", name, seed, options)
                proofs.append((name, seed, proof))
                _write(options.out, name, seed, proof, options)
                if proof.wrong:
                    console.print_json(json.dumps(proof.wrong, default=str))
    console.print(_table(proofs, options))
    return 1 if any(proof.wrong for _, _, proof in proofs) else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.kills", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="event time in which stories begin")
    parser.add_argument(
        "--rate", type=float, default=200.0, help="records a second of event time, per stream"
    )
    parser.add_argument("--kills", type=int, default=10, help="how often each driver is killed")
    parser.add_argument("--profile", choices=list(PROFILES), default="storm")
    parser.add_argument("--streams", nargs="+", choices=list(TOPICS), default=list(TOPICS))
    parser.add_argument("--out", type=Path, default=CHECKOUT / "var" / "truth.jsonl")
    return parser.parse_args(arguments)


@contextmanager
def _broker(folder: Path) -> Iterator[RunningBroker]:
    port, controller = free_ports(2)
    data = folder / "kafka"
    data.mkdir()
    broker = RunningBroker(
        Broker(data, CHECKOUT / "jars" / "kafka", "127.0.0.1", port, controller, heap_mb=384)
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def _prove(broker: RunningBroker, folder: Path, name: str, seed: int, options: argparse.Namespace) -> Proof:
    folder.mkdir()
    launch = Launch(folder, broker, f"truth-{name}-{seed}", stream=LAUNCHABLE[name])
    plan = Plan(
        profile_named(options.profile),
        seed=seed,
        rate=options.rate,
        minutes=options.minutes,
        topics=TOPICS[name],
    )
    return prove(launch, plan, options.kills)


def _write(out: Path, name: str, seed: int, proof: Proof, options: argparse.Namespace) -> None:
    line: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "stream": name,
        "seed": seed,
        "profile": options.profile,
        "rate": options.rate,
        "minutes": options.minutes,
        **asdict(proof),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line, default=str) + "\n")


def _table(proofs: list[tuple[str, int, Proof]], options: argparse.Namespace) -> Table:
    table = Table(
        *("stream", "seed", "records", "kills", "at work", "rows", "seconds", "verdict"),
        title=f"Profile {options.profile}, {options.rate:g} records/s for {options.minutes:g} minutes",
        title_justify="left",
    )
    for name, seed, proof in proofs:
        verdict = f"[red]wrong: {', '.join(proof.wrong)}" if proof.wrong else "[green]exact"
        numbers = (seed, f"{proof.records:,}", proof.kills, proof.kills_at_work)
        table.add_row(
            name, *map(str, numbers), f"{sum(proof.rows.values()):,}", f"{proof.seconds:.0f}", verdict
        )
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
