"""Repairs a table after a power loss: takes back the newest commits if their files are incomplete.

A MERGE, a compaction and a renewed lease write files and the commit at once, and are synced afterwards. After
a power loss in between, a commit may refer to an incomplete file. Nothing depends on such a commit yet: Spark
has not committed the batch and runs it again.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from stateward.contract import storage
from stateward.runtime.delta.commit_retry import is_epoch

_LOG = logging.getLogger(__name__)
_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")
_LOOKED_AT = 8
_MAGIC = b"PAR1"


class TornTableError(RuntimeError):
    """A table refers to an incomplete file that no batch will write again."""


def repair(uri: str, own: str = "", committed: int = -1) -> list[str]:
    """Take back the newest commits if their files are incomplete.

    Args:
        uri: The table; no effect if it does not exist or is not on a local disk.
        own: The application id of this stream's batches in the table.
        committed: The last batch that Spark has committed, which does not run again.

    Returns:
        What was taken back, for the log.

    Raises:
        TornTableError: A torn commit belongs to a batch that does not run again, or is not the newest.
    """
    root = storage.local_path(uri)
    if root is None or not (log := Path(root, "_delta_log")).is_dir():
        return []
    with _alone(log):
        done = [*_torn_commits(Path(root), log, own, committed), *_torn_checkpoint(log)]
        if done:
            storage.sync_disk(str(log))
    for what in done:
        _LOG.warning("%s: %s was incomplete after a power loss and was taken back", uri, what)
    return done


@contextmanager
def _alone(log: Path) -> Iterator[None]:
    """Lock the log, so that a second process does not take back the commit that replaced a torn one."""
    handle = os.open(log, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _torn_commits(root: Path, log: Path, own: str, committed: int) -> Iterator[str]:
    commits = sorted((path for path in log.iterdir() if _COMMIT.fullmatch(path.name)), reverse=True)
    is_newest = True
    removed: set[str] = set()
    for commit in commits[:_LOOKED_AT]:
        actions = _actions(commit)
        adds = [action["add"] for action in actions or () if "add" in action]
        files = {unquote(add["path"]): int(add["size"]) for add in adds if add["path"] not in removed}
        torn = [path for path, size in files.items() if not _is_whole(root / path, size, is_newest)]
        if actions and not torn:
            is_newest = False
            removed |= {action["remove"]["path"] for action in actions if "remove" in action}
            continue
        transactions = [action["txn"] for action in actions or () if "txn" in action]
        if not is_newest or any(_is_needed(one, own, committed) for one in transactions):
            raise TornTableError(
                f"{root}: expected the files of version {int(commit.stem)} to be whole, found that "
                f"{', '.join(torn) or commit.name} is not: the machine lost its power, or the disk is "
                "damaged. Go back to a savepoint (`stateward state restore`), or put the file "
                "back from a backup."
            )
        (log / f"{commit.stem}.checkpoint.parquet").unlink(missing_ok=True)
        commit.unlink()
        yield f"version {int(commit.stem)} ({', '.join(torn) or commit.name})"


def _is_needed(transaction: Mapping[str, str], own: str, committed: int) -> bool:
    name, version = transaction["appId"], int(transaction["version"])
    return not is_epoch(name) and (name != own or version <= committed)


def _actions(commit: Path) -> list[dict[str, dict[str, str]]] | None:
    """The actions of a commit; None if it is incomplete."""
    with suppress(ValueError):
        found = [json.loads(line) for line in commit.read_text().splitlines()]
        if found and all(isinstance(action, dict) for action in found):
            return found
    return None


def _is_whole(file: Path, size: int, is_newest: bool) -> bool:
    """Whether a Parquet file has the right size, header and footer; in the newest commit also decode it."""
    try:
        with file.open("rb") as content:
            begin = content.read(len(_MAGIC))
            content.seek(-len(_MAGIC), os.SEEK_END)
            if (begin, content.read(), content.tell()) != (_MAGIC, _MAGIC, size):
                return False
        if is_newest:
            for _ in pq.ParquetFile(file).iter_batches():
                pass
    except (OSError, pa.ArrowException):
        return False
    return True


def _torn_checkpoint(log: Path) -> Iterator[str]:
    """Remove the newest checkpoint of the log if it is incomplete: the commits before it still exist."""
    for checkpoint in sorted(log.iterdir(), reverse=True):
        if _CHECKPOINT.fullmatch(checkpoint.name):
            if not _is_whole(checkpoint, checkpoint.stat().st_size, True):
                checkpoint.unlink()
                (log / "_last_checkpoint").unlink(missing_ok=True)
                yield checkpoint.name
            break
    last = log / "_last_checkpoint"
    if last.exists() and not _actions(last):
        last.unlink()
        yield last.name
