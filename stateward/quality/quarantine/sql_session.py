"""SQL over the tables of an installation by DuckDB: a process of `stateward sql`.

Its first argument is JSON: `tables_uri`, and `tables`, the stream that writes each table by the table's name.
The others are queries; without them it reads statements from standard input. `<table>_valid` has the rows
that are not held back, of validated tables; it is read when a statement names it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from stateward.contract.process_output import JobExit
from stateward.quality.quarantine.valid_rows import NotValidError, valid_rows

if TYPE_CHECKING:
    import duckdb

_PROMPT, _CONTINUED = "stateward> ", "      ...> "


class SqlSession:
    """DuckDB in memory, with a view for each Delta table.

    Args:
        tables_uri: The folder of all tables, `<STATEWARD_DATA>/tables`.
        tables: The stream that writes each table, by the table's name.
    """

    def __init__(self, tables_uri: str, tables: Mapping[str, str]) -> None:
        import duckdb
        from deltalake import DeltaTable

        self._uri = tables_uri.rstrip("/")
        self._streams = tables
        self._connection = duckdb.connect()
        self.tables: list[str] = []
        for name in sorted(tables):
            if DeltaTable.is_deltatable(f"{self._uri}/{name}"):
                self._connection.register(name, DeltaTable(f"{self._uri}/{name}").to_pyarrow_dataset())
                self.tables.append(name)

    def run(self, statement: str) -> duckdb.DuckDBPyRelation | None:
        """Run a statement; a query returns its rows.

        Raises:
            duckdb.Error: DuckDB refuses it.
            NotValidError: It names `<table>_valid` of a table that has not been validated.
        """
        for name in self.tables:
            if re.search(rf"\b{name}_valid\b", statement, re.IGNORECASE):
                rows = valid_rows(self._uri, self._streams[name], name)
                self._connection.register(f"{name}_valid", rows)
        return self._connection.sql(statement)


def statements(lines: TextIO, *, prompts: bool) -> Iterator[str]:
    """Yield each statement of a text; it ends with a semicolon at the end of a line, or with the text."""
    read: list[str] = []
    while True:
        if prompts:
            sys.stdout.write(_CONTINUED if read else _PROMPT)
            sys.stdout.flush()
        line = lines.readline()
        if line.strip():
            read.append(line)
        if read and (not line or line.rstrip().endswith(";")):
            yield "".join(read)
            read = []
        if not line:
            return


def main(argv: list[str]) -> int:
    """Print the rows of each statement; the exit code is `JobExit.FAILED` if the last one failed."""
    import duckdb

    given = json.loads(argv[0])
    session = SqlSession(given["tables_uri"], given["tables"])
    prompts = sys.stdin.isatty() and not argv[1:]
    if prompts:
        sys.stdout.write(f"Tables: {', '.join(session.tables)}. End a statement with a semicolon.\n")
    code = JobExit.DONE
    for statement in argv[1:] or statements(sys.stdin, prompts=prompts):
        try:
            found = session.run(statement)
            code = JobExit.DONE
        except (duckdb.Error, NotValidError) as error:
            sys.stderr.write(f"{error}\n")
            if isinstance(error, duckdb.CatalogException):
                known = ", ".join(session.tables) or "none yet; a stream's first batch makes them"
                sys.stderr.write(f"Tables of {given['tables_uri']}: {known}.\n")
            code = JobExit.FAILED
        else:
            if found is not None:
                found.show(max_width=200, max_rows=1000)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
