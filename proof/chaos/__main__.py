"""Streams on the whole platform, with seeded traffic, while processes are killed one after the other.

``python -m proof.chaos --minutes 120 --seed 1``, or ``make chaos``. Afterwards every table has to be as
expected. Prints tables, and adds a JSON line to var/chaos.jsonl. docs/chaos.md says how to read them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from proof.chaos.chart import draw
from proof.chaos.faults import FAULTS
from proof.chaos.report import faults_table, standstill_table, verdict_line, write_line
from proof.chaos.run import Options, run_chaos
from proof.chaos.truths import TOPICS
from proof.traffic.profiles import PROFILES
from stateward.project.settings import CHECKOUT

_STREAMS = ("user_sessions", "fraud_watch", "raw_events")


def main(arguments: list[str]) -> int:
    """Run it once; returns 1 if anything was not as expected."""
    given = _given(arguments)
    # Like Ctrl-C, so that the platform is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = Options(
        streams=tuple(given.streams),
        minutes=given.minutes,
        seed=given.seed,
        mean_gap_s=given.mean_gap,
        rate=given.rate,
        profile=given.profile,
        faults=tuple(given.faults),
    )
    console = Console(highlight=False)
    began = datetime.now(UTC)
    folder = Path(tempfile.mkdtemp(prefix="stateward-chaos-"))
    # The folder of a failed or interrupted run is always kept.
    outcome = run_chaos(
        folder, options, lambda line: console.print(line, markup=False, soft_wrap=True), keep=given.keep
    )
    if outcome.wrong or given.keep:
        console.print(f"logs, and data-kept with the tables, are in {folder}/home", markup=False)
    else:
        shutil.rmtree(folder)
    write_line(given.out, options, outcome, began)
    if given.chart:
        draw(outcome.hits, outcome.gaps, options.streams, given.chart)
    if outcome.wrong:
        console.print_json(json.dumps(outcome.wrong, default=str))
    for table in (faults_table(outcome), standstill_table(outcome)):
        console.print(table)
    console.print(", ".join(f"{name} {seconds:.0f} s" for name, seconds in outcome.seconds.items()))
    console.print(verdict_line(outcome))
    return 1 if outcome.wrong else 0


def _given(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120.0, help="how long things die")
    parser.add_argument("--seed", type=int, default=1, help="decides traffic, faults and victims")
    parser.add_argument("--mean-gap", type=float, default=30.0, help="seconds between two faults, on average")
    parser.add_argument("--rate", type=float, default=20.0, help="records a second to each topic")
    parser.add_argument("--profile", choices=list(PROFILES), default="daily", help="of the traffic")
    parser.add_argument("--streams", nargs="+", choices=list(TOPICS), default=list(_STREAMS))
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--keep", action="store_true", help="leave the folder with logs and tables")
    parser.add_argument("--chart", type=Path, help="where to draw the run, as SVG")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "var" / "chaos.jsonl")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
