"""The outcome of a run as tables and as a line of JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from proof.chaos.faults import FAULTS
from proof.chaos.progress import Standstill, standstills
from proof.chaos.run import Options, Outcome


def faults_table(outcome: Outcome) -> Table:
    """The number of injected and of missed faults, by kind."""
    hits, misses = Counter(hit.kind for hit in outcome.hits), Counter(miss.kind for miss in outcome.misses)
    table = Table("fault", "hit", "missed", title="What was done", title_justify="left")
    for name in FAULTS:
        table.add_row(name, str(hits[name]), str(misses[name]))
    table.add_section()
    table.add_row("all", str(hits.total()), str(misses.total()))
    return table


def standstill_table(outcome: Outcome) -> Table:
    """The longest time without progress while records were waiting, by stream and cause."""
    columns = ("stream", "after", "times", "median, s", "longest, s", "alone, s")
    table = Table(*columns, title="Without a commit while records were waiting", title_justify="left")
    table.columns[0].no_wrap = True
    found = standstills(outcome.gaps, outcome.hits)
    for number, one in enumerate(found):
        if number and found[number - 1].stream != one.stream:
            table.add_section()
        table.add_row(one.stream, one.cause, *_numbers(one))
    return table


def verdict_line(outcome: Outcome) -> str:
    """The outcome in a sentence, with markup for the terminal."""
    rows = ", ".join(f"{stream} {count:,} rows" for stream, count in outcome.rows.items())
    numbers = f"{outcome.records:,} records, {len(outcome.hits)} faults, {rows}"
    failures = ", ".join(f"{stream} {count}" for stream, count in outcome.failures.items())
    verdict = f"[red]wrong: {', '.join(outcome.wrong)}" if outcome.wrong else "[green]exact"
    return f"{numbers}\nstarted again after a failure: {failures}\n{verdict}"


def write_line(file: Path, options: Options, outcome: Outcome, at: datetime) -> None:
    """Add the run to a file of JSON lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(as_document(options, outcome, at), default=str) + "\n")


def as_document(options: Options, outcome: Outcome, at: datetime) -> Mapping[str, Any]:
    """The run as a JSON object, without the single gaps, of which there are thousands."""
    found = asdict(outcome)
    del found["gaps"]
    return {
        "at": at.isoformat(timespec="seconds"),
        "options": asdict(options),
        **found,
        "standstills": [asdict(one) for one in standstills(outcome.gaps, outcome.hits)],
    }


def _numbers(one: Standstill) -> tuple[str, ...]:
    alone = "" if one.longest_alone_s is None else f"{one.longest_alone_s:.1f}"
    return str(one.gaps), f"{one.median_s:.1f}", f"{one.longest_s:.1f}", alone
