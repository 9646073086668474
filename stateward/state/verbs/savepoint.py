"""The verb ``savepoint``: a complete copy of a drained checkpoint, with all that is needed to restore it."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from stateward.contract import storage
from stateward.contract.process_output import READY
from stateward.contract.reading import iso
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.files import checkpoint_copy
from stateward.state.files.state_file_completeness import require_whole_state
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.drained import require_drained
from stateward.state.operation.verb import Change, Earlier
from stateward.state.savepoints import manifest
from stateward.state.savepoints.manifest import CHECKPOINT, Manifest, TableAt
from stateward.state.savepoints.tables import tables_at

_ROOT = Path(__file__).resolve().parents[3]
_TIMEOUT_S = 10


class SavepointVerb(Change[Checkpoint]):
    """Copy the current generation, and write the manifest last: without one a copy is no savepoint.

    Under the stream's lease, so that neither the checkpoint nor the stream's rows change meanwhile.
    """

    name = "savepoint"

    def resume(self, earlier: Earlier) -> Answer | None:
        """Answer with the savepoint of the earlier try; a broken one is removed, and copied again."""
        catalog, savepoint = self.context.catalog, self.context.request.stamp
        if savepoint not in catalog.ids():
            return None
        found = catalog.look(savepoint)
        if not found.is_good or (made := found.manifest) is None:
            storage.delete(found.uri)
            return None
        return self._answer(made.generation, made.last_batch, len(made.files), made.size, made.tables)

    def plan(self) -> Checkpoint:
        """Check the checkpoint, and that the savepoint's id is free.

        Raises:
            StateError: There is no checkpoint, a batch of it is pending or missing, or a file of its state;
                or the id is taken.
        """
        context, savepoint = self.context, self.context.request.stamp
        checkpoint = require_drained(context.stream, context.generation.uri, runs=context.runs)
        if savepoint in context.catalog.ids():
            raise StateError(
                f"stream {context.stream}: expected no savepoint {savepoint}, found one. Try again in a "
                "second."
            )
        if not context.runs:
            require_whole_state(context.stream, context.generation.uri)
        return checkpoint

    def preview(self, checkpoint: Checkpoint) -> Answer:
        """Report what would be copied."""
        generation = self.context.generation
        tables = tables_at(self.context.stream, self.context.request.config.tables)
        files = len(checkpoint_copy.paths_in(generation.uri))
        return self._answer(generation.number, checkpoint.last_committed(), files, 0, tables)

    def apply(self, checkpoint: Checkpoint) -> Answer:
        """Copy the checkpoint, and write the manifest.

        Raises:
            CopyError: A file cannot be read or written, or is damaged; the savepoint has no manifest then.
        """
        context, request, generation = self.context, self.context.request, self.context.generation
        code, schemas = code_version(), _schemas(generation.uri)
        last_batch = checkpoint.last_committed()
        planned, initial = checkpoint.planned(last_batch), checkpoint.initial_offsets()
        partitions = checkpoint.state_partitions()
        context.journal.decide({"savepoint": request.stamp})
        folder = context.catalog.folder(request.stamp)
        tables = tables_at(context.stream, request.config.tables)
        context.report("checkpoint", f"copying {generation.uri}")
        files = checkpoint_copy.copy_checkpoint(generation.uri, f"{folder}/{CHECKPOINT}")
        context.report("checkpoint", READY)
        context.report("manifest", "writing")
        made = Manifest(
            stream=context.stream,
            savepoint=request.stamp,
            made_at=iso(context.clock()),
            reason=request.arguments["reason"],
            code=code,
            yaml=request.yaml,
            # The YAML may have been changed since the driver wrote the state.
            configuration=storage.read_json(request.launched_uri) or request.document,
            generation=generation.number,
            query_id=str(checkpoint.query_id()),
            last_batch=last_batch,
            watermark_ms=0 if planned is None else planned.watermark_ms,
            initial=initial,
            next=initial if planned is None else planned.offsets,
            partitions=partitions,
            state_version=getattr(context.job, "state_version", None),
            schemas=schemas,
            tables=tables,
            files=files,
        )
        manifest.write(made, folder)
        context.report("manifest", READY)
        return self._answer(made.generation, last_batch, len(files), made.size, tables)

    def _answer(
        self, generation: int, last_batch: int, files: int, size: int, tables: Mapping[str, TableAt]
    ) -> Answer:
        stream, savepoint = self.context.stream, self.context.request.stamp
        uri = self.context.catalog.folder(savepoint)
        versions = {name: table.version for name, table in tables.items()}
        return Answer(
            (
                f"Savepoint {savepoint} of {stream} {self.would('have', 'has')} generation {generation} up "
                f"to batch {last_batch}: {files:,} files.",
                f"It {self.would('lie', 'lies')} in {uri}.",
            ),
            (Listing("Tables", ("table", "version"), list(versions.items())),),
            {
                "stream": stream,
                "savepoint": savepoint,
                "uri": uri,
                "generation": generation,
                "last_batch": last_batch,
                "files": files,
                "size": size,
                "tables": versions,
            },
        )


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
    filesystem, path = storage.filesystem_at(uri)
    content: bytes = filesystem.cat_file(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    # Some of these files are texts, others texts with their lengths in bytes before them.
    if text.replace("\n", "").isprintable():
        return {"text": text}
    return {"base64": base64.b64encode(content).decode()}


def code_version() -> dict[str, str | None]:
    """``stateward``, ``spark`` and ``commit``; None for what cannot be found out."""
    return {"stateward": _release("stateward"), "spark": _release("pyspark"), "commit": _commit()}


def _release(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit, with ``-dirty`` if files were changed since; None without a repository."""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
