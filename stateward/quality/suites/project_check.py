"""Checks the declarations and suites of a project, without an engine: a process of `stateward validate`.

Its argument is the folder of the suites. Standard input has the streams, as `problems` takes them; each line
of standard output is a problem.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stateward.contract.process_output import JobExit
from stateward.project.project import NoSuchStreamError, Project, own_line
from stateward.quality.suites.suite import SuiteError, load_suite
from stateward.runtime.api.any_job import AnyJob, table_problems
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.record_fields import field_problems
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.api.tables import SHARED_TABLES, Table
from stateward.runtime.ingest.event_rows import column_problems


def problems(suites: Path, streams: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong, a sentence each.

    Args:
        suites: The folder with one file per table.
        streams: By name, `file`, which is the stream's YAML, its `tables`, `topics` and `lookups`, and the
            `config` of a driver that would be started now.
    """
    project = Project.imported()
    declared: dict[str, Table] = {table.name: table for table in SHARED_TABLES}
    unknown: set[str] = set()
    for stream, given in streams.items():
        try:
            job = project.declaration(stream)
        except Exception as error:
            unknown |= set(given["tables"])
            cannot = (
                f"{own_line(error) or project.jobs}: stream {stream}: its declaration cannot be imported:"
                f" {type(error).__name__}: {error}. Correct the code."
            )
            yield str(error) if isinstance(error, NoSuchStreamError) else cannot
        else:
            declared |= _tables(job)
            for problem in table_problems(job, given["tables"]):
                yield f"{given['file']}: stream {stream}: {problem}"
            yield from _sources(stream, given, job)
            if given.get("config"):
                config = parse_config(given["config"], given["file"])
                file = project.jobs / stream / "declaration.py"
                yield from (f"{file}: stream {stream}: {problem}" for problem in _fields(job, config))
    # A stream whose YAML is invalid has its problem already, and the suites of its tables are judged.
    written = {file.stem for file in (suites.parent / "streams").glob("*.y*ml")} - streams.keys()
    for stream in sorted(written & set(project.streams())):
        with contextlib.suppress(Exception):
            declared |= _tables(project.declaration(stream))
    for stream in sorted(set(project.streams()) - streams.keys() - written):
        yield (
            f"{project.jobs / stream}: expected a YAML of the stream {stream}, found none."
            " Add it beside those of the other streams, or remove the folder."
        )
    # The suite of a table whose declaration is not known is not judged.
    for file in sorted(one for one in suites.glob("*.yaml") if one.stem not in unknown):
        try:
            yield from _columns(file, declared)
        except SuiteError as error:
            yield str(error)


def _tables(job: AnyJob) -> dict[str, Table]:
    """The tables that a stream declares, by name."""
    return {one.table.name: one.table for one in (*job.outputs, *job.optional_outputs)}


def _sources(stream: str, given: dict[str, Any], job: Any) -> Iterator[str]:
    """What the stream reads: a topic for each input, and the lookups of its declaration."""
    inputs = [one.name for one in getattr(job, "inputs", ())]
    if inputs and len(given["topics"]) != len(inputs):
        yield (
            f"{given['file']}: source.topics: expected a topic for each of {', '.join(inputs)}, found"
            f" {', '.join(given['topics'])}. Name them in this order."
        )
    lookups = {one.name for one in getattr(job, "lookups", ())}
    if lookups != set(given["lookups"]):
        yield (
            f"{given['file']}: lookups: expected {', '.join(sorted(lookups)) or 'none'}, which the"
            f" declaration of stream {stream} has, found {', '.join(sorted(given['lookups'])) or 'none'}."
            " Declare the lookups of the settings in the `StreamJob` too."
        )


def _fields(job: AnyJob, config: Config) -> Iterator[str]:
    """Where the fields of records are, and, for Spark's own operators, whether they can be columns."""
    if isinstance(job, LandingJob):
        return
    try:
        each = set(job.fields_of(config).values())
    except ValueError as error:
        yield str(error)
        return
    for fields in each:
        yield from field_problems(fields)
        if isinstance(job, NativeJob):
            yield from column_problems(fields)
        elif isinstance(job, StreamJob) and job.key_of is None and job.key not in fields:
            yield (
                f"expected the key {job.key.name} among its fields, found"
                f" {', '.join(field.name for field in fields)}. Add the field of `key` to `fields`."
            )
    if isinstance(job, StreamJob):
        yield from _methods(job, config)


def _methods(job: StreamJob, config: Config) -> Iterator[str]:
    """What the logic lacks."""
    try:
        logic = job.logic(config)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        yield f"expected its logic, found {found}. Correct `logic` of the `StreamJob`."
        return
    missing = [name for name in ("apply", "deadline", "expire") if not callable(getattr(logic, name, None))]
    if missing:
        yield (
            f"expected {type(logic).__name__} to have apply, deadline and expire, found no"
            f" {', '.join(missing)}. Add it to the logic."
        )


def _columns(file: Path, declared: dict[str, Table]) -> Iterator[str]:
    table = declared.get(file.stem)
    suite = load_suite(file, table)
    if table is None:
        return
    columns = {column.name for column in table.columns}
    for one in suite.expectations:
        if unknown := sorted(set((one.column or "").split(", ")) - columns - {""}):
            yield (
                f"{file}: expectation {one.name!r}: expected a column of {table.name}, found"
                f" {', '.join(unknown)}. The table has {', '.join(sorted(columns))}."
            )


def main(argv: list[str]) -> int:
    """Print the problems; the exit code is `JobExit.DIFFERENT` if there are any."""
    found = list(problems(Path(argv[0]), json.load(sys.stdin)))
    for one in found:
        sys.stdout.write(one.replace("\n", " ") + "\n")
    return JobExit.DIFFERENT if found else JobExit.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
