"""The folders of local copies of states (`state_cache`): one folder with a marker file per checkpoint.

Only folders with a marker of the same stream are removed. A stream is identified by the folder of its
checkpoints, because two installations may have streams of the same name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from pathlib import Path

from stateward.contract.conditions import Condition, ConditionError
from stateward.runtime.checkpoint import generations

MARKER = "stateward-copy.json"
"""File in a copy that names its checkpoint."""
# Version of the format of a copy (`state_cache`).
_LAYOUT = "v6"
_OTHERS_BITS = 0o077
_OTHERS_WRITE = 0o022


class CopyFolderError(ConditionError, RuntimeError):
    """A folder for copies belongs to another user, who could read or replace its content."""

    condition = Condition.COPY_FOLDER_UNSAFE


def copy_folder(root: str, checkpoint_uri: str) -> Path:
    """The folder of a checkpoint's copy.

    Its name contains the boot id: the copy is not synced to disk, so a crash of the machine can corrupt it,
    while a crash of a process cannot. It also contains the layout version, so that a release with another
    layout builds new copies.

    Args:
        root: The folder for copies.
        checkpoint_uri: The checkpoint's folder.
    """
    return Path(root) / f"{_digest(checkpoint_uri)}-{_boot()}-{_LAYOUT}"


def prepare_copy(root: str, checkpoint_uri: str) -> Path:
    """Create and mark the folder of a copy, and remove obsolete copies of the stream.

    Raises:
        CopyFolderError: A folder on the path belongs to another user.
    """
    folder = copy_folder(root, checkpoint_uri)
    make_private(folder)
    (folder / MARKER).write_text(json.dumps({"checkpoint": checkpoint_uri}))
    for other in folder.parent.iterdir():
        if other != folder and _is_of_stream(other, checkpoint_uri):
            # If one is still in use, its stamps are missing the next time, and it is built again.
            shutil.rmtree(other, ignore_errors=True)
    return folder


def make_private(folder: Path) -> None:
    """Create a folder that other users cannot enter, with its parents.

    Below a world-writable folder such as ``/tmp``, every part of the path must belong to this user or to
    root: the owner of a part could replace the folders below it.

    Raises:
        CopyFolderError: The folder, or such a part, belongs to another user.
    """
    is_shared = False
    for part in [*reversed(folder.parents), folder]:
        if not part.is_dir():
            part.mkdir(mode=0o700, exist_ok=True)
        found = part.lstat()
        if is_shared or part == folder:
            _require_owner(part, found, {os.geteuid()} if part == folder else {os.geteuid(), 0})
            _close(part, found, _OTHERS_BITS if part == folder else _OTHERS_WRITE)
        is_shared = is_shared or bool(part.stat().st_mode & stat.S_IWOTH)


def _require_owner(part: Path, found: os.stat_result, allowed: set[int]) -> None:
    if found.st_uid not in allowed:
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "one"
        raise CopyFolderError(
            f"{part}: expected a folder of user {os.geteuid()} for copies of states, found {kind} of user "
            f"{found.st_uid}, who could read or replace them. Remove it, or set `state.cache` in the "
            "stream's YAML to a folder in which no other user may write."
        )


def _close(part: Path, found: os.stat_result, bits: int) -> None:
    """Remove other users' access to our folder; an earlier release left it open."""
    if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode) and found.st_mode & bits:
        part.chmod(0o700)


def _is_of_stream(folder: Path, checkpoint_uri: str) -> bool:
    """Whether a folder is a copy of this stream, of any generation and boot."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    try:
        marked = json.loads((folder / MARKER).read_text())["checkpoint"]
    except (OSError, ValueError, KeyError, TypeError):
        # It is none, or another worker removes it at this moment.
        return False
    return isinstance(marked, str) and generations.root_of(marked) == generations.root_of(checkpoint_uri)


def _digest(checkpoint_uri: str) -> str:
    return hashlib.sha256(checkpoint_uri.encode()).hexdigest()[:12]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        return f"pid{os.getppid()}"
