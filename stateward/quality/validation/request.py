"""What a job is asked to validate: its command line, as one request for each table."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from stateward.contract.names import QUALITY_VALIDATIONS

_EACH = ("table", "table-uri", "suite-file")


@dataclass(frozen=True)
class Request:
    """What to validate and where to put the results.

    Attributes:
        from_version: first Delta version to validate; None is the one after the last that was validated.
        to_version: the last one; None is the latest when the job starts.
        docs_uri: folder of the static Data Docs. The validator's own files lie beside it, in `gx/`.
    """

    table_uri: str
    table: str
    stream: str
    from_version: int | None
    to_version: int | None
    suite_file: Path
    results_uri: str
    docs_uri: str
    run_id: str

    @property
    def validations_uri(self) -> str:
        """The table of the validations."""
        return f"{self.results_uri.rstrip('/').rpartition('/')[0]}/{QUALITY_VALIDATIONS}"


def parse_requests(argv: list[str]) -> tuple[list[Request], Path | None]:
    """Read the command line of a job.

    Returns:
        A request for each table, in the order of the tables, and the folder of the queue if there is one.

    Raises:
        SystemExit: an argument is missing, unknown, or does not fit the others.
    """
    parser = argparse.ArgumentParser(prog="validate.py", description=__doc__)
    for name in _EACH:
        parser.add_argument(f"--{name}", required=True, action="append", help="once for each table")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--from-version", type=_version, default=None, help="a number, or `next` (default)")
    parser.add_argument("--to-version", type=_version, default=None, help="a number, or `latest` (default)")
    parser.add_argument("--results-uri", required=True)
    parser.add_argument("--docs-uri", required=True)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--queue", type=Path, default=None, help="a folder with further commands")
    given = vars(parser.parse_args(argv))
    queue = given.pop("queue")
    tables, uris, suites = (given.pop(name.replace("-", "_")) for name in _EACH)
    if not len(tables) == len(uris) == len(suites):
        parser.error(f"expected a URI and a suite for each table, found {tables}, {uris} and {suites}")
    if len(tables) > 1 and (given["from_version"], given["to_version"]) != (None, None):
        parser.error(f"expected one table for a range of versions, found {tables}")
    requests = [
        Request(table=table, table_uri=uri, suite_file=Path(suite), **given)
        for table, uri, suite in zip(tables, uris, suites, strict=True)
    ]
    return requests, queue


def _version(text: str) -> int | None:
    return None if text in ("next", "latest") else int(text)
