"""A savepoint's copy made into a checkpoint of its own: another query, which goes on where the first was."""

from __future__ import annotations

import json

from stateward.contract import storage
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.lease.lease import utc_now
from stateward.state.files import checkpoint_copy
from stateward.state.operation.errors import StateError
from stateward.state.savepoints.manifest import Manifest


def build(manifest: Manifest, copy_uri: str, target_uri: str, *, query_id: str) -> None:
    """Build the next generation; what an interrupted attempt has left there is removed.

    Args:
        manifest: The savepoint.
        copy_uri: Its checkpoint.
        target_uri: The folder of the new generation.
        query_id: The new query's. Delta remembers the old one's batches, and would take those that come
            now for batches it has.

    Raises:
        StateError: The copy is not what the manifest says.
        CopyError: A file cannot be read or written.
    """
    generations.pin(target_uri, utc_now())
    checkpoint_copy.remove(target_uri)
    copied = {file.path: file.sha256 for file in checkpoint_copy.copy_checkpoint(copy_uri, target_uri)}
    for file in manifest.files:
        if not checkpoint_copy.names_itself(file.path) and copied.get(file.path, file.sha256) != file.sha256:
            raise StateError(
                f"stream {manifest.stream}: {file.path} of savepoint {manifest.savepoint} changed while it "
                "was copied. Nothing was changed; verify the savepoint."
            )
    storage.write_text(f"{target_uri}/metadata", json.dumps({"id": query_id}, separators=(",", ":")))
    checkpoint_copy.remove(f"{target_uri}/{checkpoint_copy.crc_of('metadata')}")
    checkpoint = Checkpoint(target_uri)
    checkpoint.write_earlier({**checkpoint.earlier(), manifest.query_id: manifest.last_batch})
