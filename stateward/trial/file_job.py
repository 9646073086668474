"""Try a stream on files of events: no Spark, no Kafka, and nothing is written.

    python -m stateward.trial.file_job < the request

Prints tables. Exit codes: 0 done, 1 failed.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from rich.console import Console

from stateward.contract.process_output import JobExit
from stateward.contract.reading import InvalidDocumentError
from stateward.contract.requests import TrialRequest, read_request
from stateward.project.project import NoSuchStreamError, Project
from stateward.runtime.api.any_job import configured
from stateward.runtime.api.config import Config, ConfigError
from stateward.runtime.delta.lookup_tables import LookupInvalidError
from stateward.trial.from_lines import Line, rows_of
from stateward.trial.made_values import TrialError
from stateward.trial.tables import show

# A file or a pipe has no width, and a table has its own.
_NO_WIDTH = 10_000
_EXPECTED = (
    TrialError,
    ConfigError,
    NoSuchStreamError,
    InvalidDocumentError,
    LookupInvalidError,
    OSError,
    EOFError,
)


class Request(TrialRequest[Config], frozen=True):
    """One trial."""


def lines_of(files: Mapping[str, str]) -> Iterator[Line]:
    """Yield the lines of files, plain or gzip; a blank one is no record.

    Args:
        files: By topic its file.

    Raises:
        TrialError: A file is not there.
        OSError: A file cannot be read.
        EOFError: A gzip file is cut short.
    """
    for topic, name in files.items():
        file = Path(name)
        if not file.is_file():
            raise TrialError(
                f"expected a file of events, a JSON object in each line, at {name}, found none."
                " Correct the path."
            )
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield Line(name, topic, number, line.rstrip(b"\r\n"))


def run(request: Request, console: Console) -> None:
    """Run the stream on the files of the request, and print its tables.

    Raises:
        TrialError: A file is not there, or the stream's code fails.
        NoSuchStreamError: There is no such stream.
        ConfigError: The stream's YAML does not fit its declaration.
        LookupInvalidError: A table of the stream's lookups is not there, or has other columns.
    """
    config = request.config
    job = configured(Project.imported().declaration(config.stream), config)
    found = rows_of(job, config, lines_of(request.files), request.now_ms)
    show(console, found, list(request.files), request.rows)


def main() -> int:
    """Run the trial, and return its exit code."""
    console = Console() if sys.stdout.isatty() else Console(width=_NO_WIDTH)
    try:
        document = msgspec.json.decode(sys.stdin.buffer.read())
        run(read_request(Request, document, "the request", "`stateward try` writes it"), console)
    except _EXPECTED as error:
        print(f"stateward: {error}", file=sys.stderr)  # noqa: T201
        return JobExit.FAILED
    return JobExit.DONE


if __name__ == "__main__":
    sys.exit(main())
