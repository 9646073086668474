"""Repairs Spark's logs in a checkpoint after a power loss.

``commits/<n>`` is never synced, and ``offsets/<n>`` only after its batch has run. Spark does not start with
an incomplete entry. Without the entry the batch runs, or is planned, again: no table has rows of a batch
whose plan is not on disk.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from stateward.contract import storage
from stateward.runtime.checkpoint.hadoop_checksums import HadoopChecksum

_LOG = logging.getLogger(__name__)


def repair_logs(uri: str) -> list[str]:
    """Remove the newest commit and the newest plan of a checkpoint if they are incomplete.

    Args:
        uri: The checkpoint of a stopped query; no effect if it is not on a local disk.

    Returns:
        What was removed, as paths in the checkpoint.
    """
    if (root := storage.local_path(uri)) is None:
        return []
    removed = []
    for name in ("commits", "offsets"):
        folder = Path(root, name)
        entries = [path for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
        newest = max(entries, key=lambda path: int(path.name), default=None)
        if newest is None or _is_whole(newest):
            continue
        if name == "offsets" and (folder.parent / "commits" / newest.name).exists():
            continue  # not caused by a power loss; Spark reports it
        newest.unlink()
        _checksum_file(newest).unlink(missing_ok=True)
        storage.sync_disk(str(folder))
        removed.append(f"{name}/{newest.name}")
        _LOG.warning("%s: %s was incomplete after a power loss and was removed", uri, removed[-1])
    return removed


def _checksum_file(entry: Path) -> Path:
    return entry.with_name(f".{entry.name}.crc")


def _is_whole(entry: Path) -> bool:
    content = entry.read_bytes()
    try:
        version, *lines = content.decode().splitlines()
        # The second line of a commit is JSON, as are those of a plan, where "-" is a source without offsets.
        whole = (
            version.startswith("v") and bool(lines) and all(line == "-" or _is_json(line) for line in lines)
        )
        if whole and _checksum_file(entry).exists():
            checksum = HadoopChecksum(_checksum_file(entry).read_bytes())
            checksum.update(content)
            whole = checksum.holds()
    except ValueError:
        return False
    return whole


def _is_json(line: str) -> bool:
    json.loads(line)
    return True
