"""The care of a state, simulated over a month, or on the real platform with a day of two minutes.

`python -m proof.care` writes docs/images/state-care-month.svg. With `--platform` (`make care`) a stream runs
whose load grows and falls: three moves up and three down, each row compared with the oracle's. `--write` puts
its table and its picture into the documentation.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import psutil
from rich.console import Console

from proof.care.chart import write
from proof.care.measured_moves import LEVELS, Options, Outcome
from proof.care.month import DAYS, eightfold, simulate
from proof.care.moves import run_moves
from proof.care.moves_report import draw, table, write_page
from stateward.project.settings import CHECKOUT

_DOCS = CHECKOUT / "docs"


def main(arguments: list[str]) -> int:
    """Draw the month, or run on the platform; returns 1 if anything was not as expected."""
    parser = argparse.ArgumentParser(prog="python -m proof.care", description=__doc__.splitlines()[0])
    parser.add_argument("--platform", action="store_true", help="run on the real platform")
    parser.add_argument("--minutes", type=int, default=2, help="how long a day is (%(default)s)")
    parser.add_argument("--looks", type=int, default=2, help="that have to agree (%(default)s)")
    parser.add_argument(
        "--levels", type=int, nargs="+", default=list(LEVELS), help="partitions that are needed"
    )
    parser.add_argument("--write", action="store_true", help="put the results into the documentation")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "var" / "care.jsonl")
    given = parser.parse_args(arguments)
    if not given.platform:
        write(simulate(eightfold, DAYS), _DOCS / "images" / "state-care-month.svg")
        return 0
    # Like Ctrl-C, so that the platform is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return _on_the_platform(Options(given.minutes, given.looks, tuple(given.levels)), given.out, given.write)


def _on_the_platform(options: Options, out: Path, write_docs: bool) -> int:
    console = Console(highlight=False)
    # The folder of a failed or interrupted run is kept.
    folder = Path(tempfile.mkdtemp(prefix="stateward-care-"))
    outcome = run_moves(folder, options, lambda line: console.print(line, markup=False, soft_wrap=True))
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"options": asdict(options), **asdict(outcome)}, default=str) + "\n")
    console.print(table(outcome.moves), markup=False)
    console.print(_about(options, outcome), markup=False, soft_wrap=True)
    if outcome.wrong:
        console.print_json(json.dumps(outcome.wrong, default=str))
        console.print(f"logs and tables are in {folder}", markup=False)
        return 1
    shutil.rmtree(folder)
    if write_docs:
        draw(outcome, _DOCS / "images" / "state-care-moves.svg")
        write_page(outcome, _DOCS / "state-care.md", _about(options, outcome))
    return 0


def _about(options: Options, outcome: Outcome) -> str:
    verdict = "not as expected" if outcome.wrong else "each as the oracle has it"
    return (
        f"{outcome.records:,} events, {outcome.rows:,} rows, {verdict}. A day of {options.minutes} minutes, "
        f"{options.looks} looks; {datetime.now(UTC):%Y-%m-%d}, {psutil.cpu_count()} CPUs, one run."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
