"""The tables of the shipped streams stay what they are: other people read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deltalake.schema import ArrayType

from stateward.project.project import Project
from stateward.runtime.api.tables import Table

GOLDEN = Path(__file__).with_name("tables.txt")


def lines_of(stream: str, table: Table) -> Iterator[str]:
    yield f"{stream}: {table.name}: {table.description}"
    for name in ("partition_by", "current_by", "came_at"):
        if value := getattr(table, name):
            yield f"    {name} {value if isinstance(value, str) else ', '.join(value)}"
    fields = {field.name: field for field in table.schema().fields}
    for column in table.columns:
        field = fields[column.name]
        found = field.type
        kind = f"array<{found.element_type.type}>" if isinstance(found, ArrayType) else found.type
        marks = [name for name in ("personal", "nullable") if column.name in getattr(table, name)]
        marks += [f"from {', '.join(column.derived_from)}"] if column.derived_from else []
        said = f" [{'; '.join(marks)}]" if marks else ""
        yield f"  {column.name} {kind}: {field.metadata['comment']}{said}"


def test_columns_types_comments_and_marks_are_those_of_the_release_before() -> None:
    project, golden = Project.imported(), GOLDEN.read_text().splitlines()
    shipped = dict.fromkeys(line.partition(":")[0] for line in golden if not line.startswith(" "))
    found = [
        line
        for stream in shipped
        for output in (*project.declaration(stream).outputs, *project.declaration(stream).optional_outputs)
        for line in lines_of(stream, output.table)
    ]
    assert found == golden, f"a change that is meant belongs in {GOLDEN.name} too"
