"""The check that a checkpoint can be copied: it exists, and its last planned batch is committed."""

from __future__ import annotations

from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_integrity import require_whole_logs


def require_drained(stream: str, checkpoint_uri: str, *, runs: bool = False) -> Checkpoint:
    """Return the drained checkpoint of a generation; the caller holds the lease, so that it stays as it is.

    Args:
        stream: The stream.
        checkpoint_uri: The checkpoint's folder.
        runs: Whether the stream runs, as in a dry run; then a batch may be pending.

    Raises:
        StateError: There is none, a batch of it is pending, or its logs have a gap.
    """
    checkpoint = Checkpoint(checkpoint_uri)
    if checkpoint.query_id() is None:
        raise StateError(
            f"stream {stream}: expected a checkpoint in {checkpoint_uri}, found none. Start the stream first."
        )
    if not runs and not checkpoint.is_clean():
        raise StateError(
            f"stream {stream}: expected a drained checkpoint, found batch {checkpoint.last_planned()} "
            f"planned and not committed in {checkpoint_uri}. Start the stream, which commits that batch, and "
            "stop it by its DAG's action `stop`, which drains it."
        )
    if checkpoint.last_committed() >= 0:
        require_whole_logs(checkpoint_uri)
    return checkpoint
