"""`python -m benchmarks.report`: the newest results of every kind as tables and charts.

All series of this machine are printed. Those of a commit are published with the docs, whose pages show the
newest ones that have enough runs of each contestant.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.charts import runs as report_runs
from benchmarks.charts import states
from benchmarks.charts.chart import draw
from benchmarks.charts.goals import goals
from benchmarks.charts.pairs import Spread, paired_table
from benchmarks.charts.peers import beside_peers
from benchmarks.harness.results import PUBLISHED, publish
from benchmarks.harness.workload import Workload
from stateward.project.settings import CHECKOUT, Settings

BEGIN = "<!-- written by `python -m benchmarks.report`: do not edit below -->"
END = "<!-- end of what is written -->"
PAGE = CHECKOUT / "docs" / "benchmarks.md"
IMAGES = CHECKOUT / "docs" / "images"

# Tables, code, headings and images.
_NOT_PROSE = ("|", "    ", "#", "!")

Result = dict[str, Any]


class ReportError(RuntimeError):
    """No report can be made."""


@dataclass(frozen=True)
class Line:
    """One contestant in one series; only runs whose output was right count.

    Attributes:
        name: of the contestant, with its variant.
        durability: what survives a crash.
        right: runs with the right output.
        runs: all runs.
        events_per_s, cpu_us, consume_s, total_s, peak_rss_mib: spreads; None without a right run.
    """

    name: str
    durability: str
    right: int
    runs: int
    events_per_s: Spread | None = None
    cpu_us: Spread | None = None
    consume_s: Spread | None = None
    total_s: Spread | None = None
    peak_rss_mib: Spread | None = None


def newest_series(results: Iterable[Result]) -> list[list[Result]]:
    """Return the results of the newest series of each workload, in the order of the workloads' size."""
    by_workload: dict[str, list[Result]] = {}
    for result in results:
        by_workload.setdefault(json.dumps(result["workload"], sort_keys=True), []).append(result)
    chosen = []
    for of_workload in by_workload.values():
        newest = max(result["series"] for result in of_workload)
        chosen.append([result for result in of_workload if result["series"] == newest])
    return sorted(chosen, key=lambda series: _order(series[0]["workload"]))


def _order(workload: dict[str, Any]) -> tuple[Any, ...]:
    names = ("skew", "keys", "size", "events", "compression", "partitions")
    return *(workload[name] for name in names), workload.get("spoilt_percent", 0)


def lines_of(series: list[Result]) -> list[Line]:
    """Return one line per contestant, the fastest first, those without a right run last."""
    lines = []
    by_name = sorted(series, key=lambda result: str(result["contestant"]))
    for name, group in groupby(by_name, key=lambda result: str(result["contestant"])):
        runs = list(group)
        right = [run for run in runs if run["correct"]]
        lines.append(_line(name, runs, right))
    return sorted(lines, key=lambda line: -line.events_per_s.median if line.events_per_s else 0)


def _line(name: str, runs: list[Result], right: list[Result]) -> Line:
    durability = runs[0]["durability"]
    if not right:
        return Line(name, durability, 0, len(runs))
    events = right[0]["workload"]["events"]
    return Line(
        name,
        durability,
        len(right),
        len(runs),
        *(
            Spread.of([run["events_per_s"] for run in right]),
            Spread.of([run["cpu_s"] / events * 1e6 for run in right]),
        ),
        *(Spread.of([run[field] for run in right]) for field in ("consume_s", "total_s", "peak_rss_mib")),
    )


def section(series: list[Result], image: str) -> str:
    """Return the Markdown of one series; without an image when its name is empty."""
    workload = Workload(**series[0]["workload"])
    loads = Spread.of([result["load_before"] for result in series])
    text = [
        f"### {workload.events:,} events of {workload.size:,} B, {workload.keys:,} users, {workload.skew}"
        f"{_more(workload)}",
        "",
        *((f"![Events per second]({image})", "") if image else ()),
        f"Series {series[0]['series']}, {series[0]['cpus']} CPUs, load before a run {loads.text(2)}; "
        f"compression {workload.compression}. {series[0]['expected']['sessions']:,} sessions expected. "
        "Each figure: median (least to most) of the runs whose output was right.",
        "",
        "| contestant | durability | right | events/s | CPU µs/event | s, first read to last commit "
        "| s, with start | peak MiB |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(line) for line in lines_of(series)),
        "",
        *paired_table(series),
        "    " + _command(workload, series),
        "",
    ]
    return "\n".join(text)


def _more(workload: Workload) -> str:
    """What is unusual in a topic."""
    text = ""
    if workload.partitions != Workload.partitions:
        text += f", {workload.partitions} partitions"
    if workload.spoilt_percent:
        text += f", and {workload.spoilt_percent} % each repeated, late and invalid"
    return text


def _row(line: Line) -> str:
    figures = [
        (line.events_per_s, 0),
        (line.cpu_us, 1),
        (line.consume_s, 1),
        (line.total_s, 1),
        (line.peak_rss_mib, 0),
    ]
    cells = [spread.text(digits) if spread else "—" for spread, digits in figures]
    return " | ".join(["| " + line.name, line.durability, f"{line.right}/{line.runs}", *cells]) + " |"


def _command(workload: Workload, series: list[Result]) -> str:
    # Another checkout's contestants come with `--before`.
    names = ",".join(dict.fromkeys(str(result["contestant"]).partition("@")[0] for result in series))
    runs = max(result["run"] for result in series)
    is_usual = workload.partitions == Workload.partitions
    partitions = "" if is_usual else f"--partitions {workload.partitions} "
    spoilt = f"--spoilt {workload.spoilt_percent} " if workload.spoilt_percent else ""
    before = " --before FOLDER" if any(result.get("before") for result in series) else ""
    return (
        f".venv/bin/python -m benchmarks.run --events {workload.events} --size {workload.size} "
        f"--keys {workload.keys} --skew {workload.skew} --compression {workload.compression} "
        f"{partitions}{spoilt}--runs {runs} --only {names}{before}"
    )


def put_between_markers(page: str, generated: str) -> str:
    """Return the page with everything between the markers replaced.

    Raises:
        ReportError: the markers are not there, once each and in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ReportError(
            f"expected the markers {BEGIN!r} and {END!r} in the page, in this order: put them back"
        )
    return f"{before}{BEGIN}\n\n{wrapped(generated)}\n{END}{after}"


def wrapped(text: str) -> str:
    """Return Markdown with its prose in lines of at most 100 characters, as the pages have it."""
    return "\n".join(
        line if line.startswith(_NOT_PROSE) else textwrap.fill(line, 100, break_on_hyphens=False)
        for line in text.split("\n")
    )


def with_sections(page: str, sections: Iterable[str]) -> str:
    """Return the page with each section in place of that of the same heading, the others as they are.

    A section whose heading is new comes first. What was not measured again keeps its figures.

    Raises:
        ReportError: the page has no markers.
    """
    there = page.partition(BEGIN)[2].partition(END)[0]
    kept = {_heading(one): one.strip() + "\n" for one in re.split(r"(?m)^(?=### )", there) if one.strip()}
    new = {_heading(one): one.strip() + "\n" for one in sections if one}
    first = [text for heading, text in new.items() if heading not in kept]
    return put_between_markers(page, "\n".join([*first, *(new.get(at, text) for at, text in kept.items())]))


def _heading(section: str) -> str:
    return section.strip().partition("\n")[0]


def has_runs(series: list[Result], least: int) -> bool:
    """Return whether every contestant has had at least so many runs."""
    return min(line.runs for line in lines_of(series)) >= least


def first_sections(results: Path, least_runs: int) -> list[str]:
    """Return the table of goals and those with peers; empty for what was not measured.

    Args:
        results: folder of the results of all programs.
        least_runs: turns that a series needs.
    """
    files = {
        "run": "results",
        **{name: name for name in ("sustained", "latency", "idle", "together", "recovery")},
    }
    read = {program: report_runs.read(results / f"{name}.jsonl") for program, name in files.items()}
    return [goals(read, least_runs), beside_peers(read)]


def write_page(chosen: list[list[Result]], results: Path, first: Iterable[str]) -> None:
    """Draw the charts, and write the series and the single runs into the page.

    Args:
        chosen: the series.
        results: folder of the results of single runs.
        first: sections before theirs.

    Raises:
        ReportError: the page has no markers.
    """
    sections = [*first]
    for series in chosen:
        workload = Workload(**series[0]["workload"])
        path = IMAGES / f"bench-{workload.name}.svg"
        draw(lines_of(series), path, f"{workload.size:,} B, {workload.keys:,} users, {workload.skew}")
        sections.append(section(series, f"images/{path.name}"))
    runs = report_runs.read_own(results / "sustained.jsonl")
    sections.append(report_runs.sustained(runs, IMAGES / "bench-sustained.svg"))
    sections.append(report_runs.latency(report_runs.read_own(results / "latency.jsonl")))
    for title, program in (
        ("A quiet stream", "idle"),
        ("Nine streams", "together"),
        ("Timeouts that are due together", "jitter"),
        ("After SIGKILL", "recovery"),
    ):
        found = report_runs.read_own(results / f"{program}.jsonl")
        sections.append(report_runs.facts(title, found, f".venv/bin/python -m benchmarks.{program}"))
    PAGE.write_text(with_sections(PAGE.read_text(), sections))


def main(arguments: list[str]) -> int:
    """Print all, and write charts and page; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument(
        "--least-runs", type=int, default=5, help="runs a series needs to get into the docs (%(default)s)"
    )
    least = parser.parse_args(arguments).least_runs
    own = Settings().home / "bench"
    publish(own)
    for series in newest_series(report_runs.read(own / "results.jsonl")):
        print(section(series, ""))
    for page, text in states.pages(PUBLISHED):
        page.write_text(put_between_markers(page.read_text(), text))
        print(f"in {page.relative_to(CHECKOUT)}")
    chosen = newest_series(report_runs.read(PUBLISHED / "results.jsonl"))
    enough = [series for series in chosen if has_runs(series, least)]
    write_page(enough, PUBLISHED, first_sections(PUBLISHED, least))
    print(f"{len(enough)} of {len(chosen)} series with {least} runs or more: in {PAGE.relative_to(CHECKOUT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
