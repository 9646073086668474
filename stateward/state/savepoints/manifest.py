"""The manifest of a savepoint: written last, with a checksum of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stateward.contract import storage
from stateward.runtime.checkpoint.batch_plan import from_json, offset_json
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.state.files.checkpoint_copy import CopiedFile

NAME = "manifest.json"
CHECKPOINT = "checkpoint"
"""The folder of the copy in the folder of the savepoint."""

_VERSION = 1


class ManifestError(ValueError):
    """A manifest is missing, or is not what was written."""


@dataclass(frozen=True)
class TableAt:
    """A table of the stream at the time of the savepoint.

    Attributes:
        uri: The table.
        version: Its Delta version; None if it did not exist.
        table_id: Delta's identifier; a table that was recreated has another one.
        batches: The last batch of this stream in a table that streams share, by generation (the query's id);
            None for the stream's own tables.
    """

    uri: str
    version: int | None
    table_id: str | None
    batches: Mapping[str, int] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether other streams write it too."""
        return self.batches is not None


@dataclass(frozen=True)
class Manifest:
    """A savepoint.

    Attributes:
        stream: The stream.
        savepoint: Its id.
        made_at: When it was made, ISO 8601 UTC.
        reason: The reason that the request gave.
        code: The versions that made it: ``stateward``, ``spark`` and ``commit``, null where unknown.
        yaml: The YAML of the stream at that time.
        configuration: The resolved configuration of the driver that wrote the checkpoint last.
        generation: Number of the generation it is a copy of.
        query_id: That checkpoint's query, the column ``generation`` of the tables.
        last_batch: The last committed batch; -1 if there is none.
        watermark_ms: At which it was planned; 0 if there is none.
        initial: Where the checkpoint's first batch began in Kafka.
        next: The first offsets that are not in the state.
        partitions: The number of state partitions; None before the first batch.
        state_version: The version of the state's schema that the stream declares; None if it declares none.
        schemas: Spark's own schema files and operators' metadata: ``path``, and ``text`` or ``base64``.
        tables: By name.
        files: The files of the copy.
    """

    stream: str
    savepoint: str
    made_at: str
    reason: str
    code: Mapping[str, str | None]
    yaml: str
    configuration: Mapping[str, Any]
    generation: int
    query_id: str
    last_batch: int
    watermark_ms: int
    initial: Offsets
    next: Offsets
    partitions: int | None
    state_version: int | None
    schemas: Sequence[Mapping[str, str]]
    tables: Mapping[str, TableAt]
    files: Sequence[CopiedFile]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def document(self) -> dict[str, Any]:
        """The manifest as JSON, with a checksum of everything else."""
        document = {
            "version": _VERSION,
            **asdict(self),
            "initial": offset_json(self.initial),
            "next": offset_json(self.next),
        }
        return {**document, "sha256": _checksum(document)}


def write(manifest: Manifest, folder_uri: str) -> None:
    """Write the manifest into the savepoint's folder, which completes the savepoint."""
    document = manifest.document()
    storage.sync_disks([folder_uri])  # the manifest states that the files are there
    storage.write_json(f"{folder_uri}/{NAME}", document)


def read(folder_uri: str) -> Manifest:
    """The manifest in a savepoint's folder.

    Raises:
        ManifestError: There is none, or it is not what was written.
    """
    uri = f"{folder_uri}/{NAME}"
    try:
        document = storage.read_json(uri)
    except ValueError as error:
        raise ManifestError(f"{NAME} cannot be read: {error}") from None
    if document is None:
        raise ManifestError(f"it has no {NAME}: its copy was interrupted, or is still running")
    if document.get("version") != _VERSION:
        raise ManifestError(f"{NAME} has version {document.get('version')!r}, expected {_VERSION}")
    if document.pop("sha256", None) != _checksum(document):
        raise ManifestError(f"{NAME} does not match its checksum")
    del document["version"]
    return Manifest(
        **{
            **document,
            "initial": from_json(document["initial"]),
            "next": from_json(document["next"]),
            "tables": {name: TableAt(**table) for name, table in document["tables"].items()},
            "files": tuple(CopiedFile(**file) for file in document["files"]),
        }
    )


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
