"""The record of the templates that a project was laid out from; `stateward update` merges by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stateward.contract.reading import as_json, read_as, require_version
from stateward.contract.storage import CorruptDocumentError, read_json, write_text

FILE = ".stateward.json"
"""Its path in the project, which keeps it under version control."""

_VERSION = 1


class LayoutRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the templates were when the project last took them.

    Attributes:
        version: Version of this document.
        library: Version of the library that had these templates.
        project: Name of the project, as the templates have it.
        files: Lines of each file as the templates had it, by its path: a diff of the record is readable.
    """

    version: int = _VERSION
    library: str
    project: str
    files: dict[str, list[str]]

    @classmethod
    def of(cls, files: Mapping[Path, str], *, project: str, library: str) -> LayoutRecord:
        """Make the record of rendered files."""
        lines = {path.as_posix(): text.split("\n") for path, text in sorted(files.items())}
        return cls(library=library, project=project, files=lines)

    def texts(self) -> dict[Path, str]:
        """Return the files as they were rendered."""
        return {Path(path): "\n".join(lines) for path, lines in self.files.items()}


def read_record(project: Path) -> LayoutRecord | None:
    """Return the record of a project; None if it has none.

    Raises:
        CorruptDocumentError: It is no JSON, such as after a merge of two branches that were both updated.
        InvalidDocumentError: It is one of a later library, or incomplete.
    """
    file = project / FILE
    try:
        found = read_json(str(file))
    except CorruptDocumentError as error:
        raise CorruptDocumentError(f"{error}. Restore it from version control.") from error
    if found is None:
        return None
    require_version(found, _VERSION, str(file), "use the release of stateward that wrote it, or a later one")
    return read_as(LayoutRecord, found, str(file))


def write_record(project: Path, record: LayoutRecord) -> None:
    """Write the record, unless it is there as it is.

    Raises:
        OSError: It cannot be written.
    """
    if record != read_record(project):
        write_text(str(project / FILE), json.dumps(as_json(record), indent=1, ensure_ascii=False) + "\n")
