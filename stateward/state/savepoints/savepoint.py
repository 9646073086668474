"""A complete copy of a drained checkpoint, with all that is needed to go back to it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import fsspec

from stateward.contract.job_steps import READY, Report
from stateward.runtime.api.config import Config
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation
from stateward.runtime.telemetry.status import iso
from stateward.state.files import checkpoint_copy
from stateward.state.files.checkpoint_copy import CopiedFile
from stateward.state.files.state_file_completeness import require_whole_state
from stateward.state.operation.drained import require_drained
from stateward.state.operation.errors import StateError
from stateward.state.savepoints import manifest
from stateward.state.savepoints.manifest import CHECKPOINT, Manifest
from stateward.state.savepoints.savepoint_catalog import SavepointCatalog
from stateward.state.savepoints.table_versions import tables_at


@dataclass(frozen=True)
class Origin:
    """What a checkpoint comes of, besides its own files.

    Attributes:
        code: Versions of the code.
        yaml: The stream's YAML.
        configuration: The resolved configuration of its last driver.
        state_version: Of the stream's declaration.
    """

    code: Mapping[str, str | None]
    yaml: str
    configuration: Mapping[str, Any]
    state_version: int | None


@dataclass(frozen=True)
class SavepointMade:
    """What came of it; with a dry run, what would.

    Attributes:
        stream: The stream.
        savepoint: Its id.
        uri: Its folder.
        generation: Number of the generation that was copied.
        last_batch: The last batch in it.
        files: How many.
        size: Their bytes.
        tables: Version of each table.
    """

    stream: str
    savepoint: str
    uri: str
    generation: int
    last_batch: int
    files: int
    size: int
    tables: Mapping[str, int | None]


def make_savepoint(
    config: Config,
    generation: Generation,
    shelf: SavepointCatalog,
    savepoint: str,
    *,
    origin: Origin,
    reason: str,
    now: datetime,
    dry_run: bool,
    report: Report,
    runs: bool = False,
) -> SavepointMade:
    """Copy the current generation, and write the manifest last.

    The caller holds the stream's lease, so that neither the checkpoint nor the stream's rows change.

    Args:
        config: The stream.
        generation: Its current one.
        shelf: Takes the savepoint.
        savepoint: Its id.
        origin: Goes into the manifest.
        reason: Why; for people.
        now: The time, aware.
        dry_run: Whether only to look.
        report: Takes each step.
        runs: Whether the stream runs, which only a dry run bears.

    Raises:
        StateError: There is no checkpoint, a batch of it is pending or missing, or a file of its state; or
            the id is taken.
        CopyError: A file cannot be read or written, or is damaged; the savepoint stays without a manifest.
    """
    checkpoint = require_drained(config.stream, generation.uri, runs=runs)
    if savepoint in shelf.ids():
        raise StateError(
            f"stream {config.stream}: expected no savepoint {savepoint}, found one. Try again in a second."
        )
    if not runs:
        require_whole_state(config.stream, generation.uri)
    folder = shelf.folder(savepoint)
    tables = tables_at(config.stream, config.tables)
    files: list[CopiedFile] = []
    if not dry_run:
        report("checkpoint", f"copying {generation.uri}")
        files = checkpoint_copy.copy_checkpoint(generation.uri, f"{folder}/{CHECKPOINT}")
        report("checkpoint", READY)
        report("manifest", "writing")
        found = _found(checkpoint, generation)
        manifest.write(
            Manifest(
                stream=config.stream,
                savepoint=savepoint,
                made_at=iso(now),
                reason=reason,
                **asdict(origin),
                **found,
                tables=tables,
                files=files,
            ),
            folder,
        )
        report("manifest", READY)
    return SavepointMade(
        stream=config.stream,
        savepoint=savepoint,
        uri=folder,
        generation=generation.number,
        last_batch=checkpoint.last_committed(),
        files=len(files) or len(checkpoint_copy.paths_in(generation.uri)),
        size=sum(file.size for file in files),
        tables={name: table.version for name, table in tables.items()},
    )


def left_by_earlier_try(shelf: SavepointCatalog, savepoint: str) -> SavepointMade | None:
    """What an earlier try of the same operation has made; the rest of one that did not end is removed.

    Args:
        shelf: Has the savepoint.
        savepoint: Its id, which nobody else uses.
    """
    if savepoint not in shelf.ids():
        return None
    looked = shelf.look(savepoint)
    if not looked.is_good or (made := looked.manifest) is None:
        checkpoint_copy.remove(looked.uri)
        return None
    return SavepointMade(
        stream=made.stream,
        savepoint=savepoint,
        uri=looked.uri,
        generation=made.generation,
        last_batch=made.last_batch,
        files=len(made.files),
        size=made.size,
        tables={name: table.version for name, table in made.tables.items()},
    )


def _found(checkpoint: Checkpoint, generation: Generation) -> dict[str, Any]:
    """What the checkpoint says about itself, as fields of the manifest."""
    last_batch = checkpoint.last_committed()
    planned, initial = checkpoint.planned(last_batch), checkpoint.initial_offsets()
    return {
        "generation": generation.number,
        "query_id": str(checkpoint.query_id()),
        "last_batch": last_batch,
        "watermark_ms": 0 if planned is None else planned.watermark_ms,
        "initial": initial,
        "next": initial if planned is None else planned.offsets,
        "partitions": checkpoint.state_partitions(),
        "schemas": _schemas(generation.uri),
    }


def _schemas(checkpoint_uri: str) -> list[dict[str, str]]:
    """The schema files of the state and the metadata of its operators, as Spark wrote them."""
    return [
        {"path": path, **_content(f"{checkpoint_uri}/{path}")}
        for path in checkpoint_copy.paths_in(checkpoint_uri)
        if path.startswith("state/") and _is_schema(path.split("/"))
    ]


def _is_schema(parts: list[str]) -> bool:
    return bool({"_stateSchema", "_metadata"} & set(parts)) and not parts[-1].endswith(".crc")


def _content(uri: str) -> dict[str, str]:
    filesystem, path = fsspec.core.url_to_fs(uri)
    content: bytes = filesystem.cat_file(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    # Some of these files are texts, others texts with their lengths in bytes before them.
    if text.replace("\n", "").isprintable():
        return {"text": text}
    return {"base64": base64.b64encode(content).decode()}
