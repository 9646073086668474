"""What an upgrade would find on the state and the tables of streams: a process of `stateward plan`.

Needs no engine, and writes nothing. Standard input has `config`, that of a start now, and `launched`, that of
the newest launch, of each stream; standard output one JSON object with a `StreamChanges` for each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deltalake import DeltaTable
from msgspec.structs import replace

from stateward.project.project import Project
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.tables import Table
from stateward.runtime.checkpoint import generations
from stateward.state.compatibility.descriptor import with_buckets_of
from stateward.state.compatibility.setting_changes import changed_settings
from stateward.state.compatibility.start import judge_start


@dataclass(frozen=True)
class StreamChanges:
    """What differs between a stream and its code and YAML.

    Attributes:
        verdict: On the state, as JSON.
        settings: Name, before and now, as JSON, of each that differs from the newest launch.
        tables: Table, column, in the table, declared.
        problem: Why it cannot be judged; then all else is empty.
    """

    verdict: Mapping[str, Any]
    settings: list[tuple[str, str, str]]
    tables: list[tuple[str, str, str, str]]
    problem: str = ""


def changes_of(
    project: Project, stream: str, document: Mapping[str, Any], launched: Mapping[str, Any]
) -> StreamChanges:
    """Compare a stream with its code and YAML.

    Args:
        project: The project with its declaration.
        stream: The stream.
        document: The configuration of a start now.
        launched: That of the newest launch; empty if there was none.
    """
    try:
        job, config = project.declaration(stream), parse_config(document, f"stream {stream}")
        generation = generations.current(config.checkpoint_uri)
        generation.require_settled(stream)
        in_force = with_buckets_of(config, generation.uri)
        verdict = judge_start(job, replace(in_force, checkpoint_uri=generation.uri), generation.uri)
        declared = [output.table for output in job.outputs]
        tables = [row for table in declared for row in table_changes(table, config.tables[table.name])]
    except Exception as error:
        # The project's code is imported, so anything may be wrong; the other streams are judged all the same.
        return StreamChanges({}, [], [], f"{type(error).__name__}: {error}")
    return StreamChanges(verdict.as_json(), changed_settings(launched, document), tables)


def table_changes(table: Table, uri: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the columns in which a table and its declaration differ; one row without any if it is new."""
    if not DeltaTable.is_deltatable(uri):
        yield table.name, "", "no table", "created by the start"
        return
    there = {field.name: _type(field) for field in DeltaTable(uri).schema().fields}
    declared = {field.name: _type(field) for field in table.schema().fields}
    for name in [*declared, *(name for name in there if name not in declared)]:
        before, now = there.get(name, "not there"), declared.get(name, "not declared")
        if before != now:
            yield table.name, name, before, now


def _type(field: Any) -> str:
    found = json.loads(field.to_json())["type"]
    return found if isinstance(found, str) else f"{found['type']}<{found['elementType']}>"


def main() -> None:
    """Answer the question on standard input."""
    project = Project.imported()
    asked = json.load(sys.stdin)
    found = {
        stream: asdict(changes_of(project, stream, given["config"], given["launched"]))
        for stream, given in asked.items()
    }
    # The last line: what the project's code prints comes before it.
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
