"""Where copies of states lie (`state_cache`): a marked folder for each checkpoint.

Only a folder with a mark of the same stream is ever removed. Streams are told apart by the folder of their
checkpoints, for two installations may have streams of one name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from pathlib import Path

from stateward.contract.conditions import Condition, ConditionError
from stateward.runtime.checkpoint import generations

MARK = "stateward-copy.json"
"""File in a copy that says of which checkpoint it is."""
# Version of the entries in a copy (`bucket_copy`).
_LAYOUT = "v2"
_UNMARKED = re.compile(r"([0-9a-f]{12})-(?:[0-9a-f]{8}|pid\d+)-v\d+")
_PARTITION = re.compile(r"p\d+")
_OTHERS_BITS = 0o077
_OTHERS_WRITE = 0o022


class CopyFolderError(ConditionError, RuntimeError):
    """A folder for copies belongs to another user, who could read or exchange what is in it."""

    condition = Condition.COPY_FOLDER_UNSAFE


def copy_folder(root: str, checkpoint_uri: str) -> Path:
    """The folder of a checkpoint's copy.

    The boot is part of its name: the copy is not synchronised to disk, which a crash of the machine, though
    not of a process, can tear. So is the layout, so that a release with another one makes its copies again.

    Args:
        root: Where copies are kept.
        checkpoint_uri: The checkpoint's folder.
    """
    return Path(root) / f"{_digest(checkpoint_uri)}-{_boot()}-{_LAYOUT}"


def prepare_copy(root: str, checkpoint_uri: str) -> Path:
    """Make and mark the folder of a copy; copies of the stream that nothing will read again are removed.

    Raises:
        CopyFolderError: A folder on the way belongs to somebody else.
    """
    folder = copy_folder(root, checkpoint_uri)
    make_private(folder)
    (folder / MARK).write_text(json.dumps({"checkpoint": checkpoint_uri}))
    for other in folder.parent.iterdir():
        if other != folder and _is_of_stream(other, checkpoint_uri):
            # Should one be in use after all, its stamps are not found the next time, and it is made again.
            shutil.rmtree(other, ignore_errors=True)
    return folder


def make_private(folder: Path) -> None:
    """Make a folder that nobody else can enter, and what is missing above it.

    Below a folder in which everybody may write, such as ``/tmp``, all of the path has to be this user's or
    root's: whoever owns a part of it could put another folder in its place.

    Raises:
        CopyFolderError: It, or such a part, is somebody else's.
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
            f"{found.st_uid}, who could read or exchange them. Remove it, or set `state.cache` in the "
            "stream's YAML to a folder in which nobody else may write."
        )


def _close(part: Path, found: os.stat_result, bits: int) -> None:
    """Keep others out of a folder of ours; a release before left it open."""
    if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode) and found.st_mode & bits:
        part.chmod(0o700)


def _is_of_stream(folder: Path, checkpoint_uri: str) -> bool:
    """Whether a folder is a copy of this stream, of whatever generation and boot."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    try:
        marked = json.loads((folder / MARK).read_text())["checkpoint"]
    except FileNotFoundError:
        return _is_unmarked_copy(folder, checkpoint_uri)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return isinstance(marked, str) and generations.root_of(marked) == generations.root_of(checkpoint_uri)


def _is_unmarked_copy(folder: Path, checkpoint_uri: str) -> bool:
    """Whether it is one of the release before: its name has the digest of one of the stream's checkpoints."""
    named = _UNMARKED.fullmatch(folder.name)
    known = {_digest(uri) for uri in generations.uris_up_to(checkpoint_uri)}
    return (
        named is not None
        and named[1] in known
        and all(_PARTITION.fullmatch(entry.name) for entry in folder.iterdir())
    )


def _digest(checkpoint_uri: str) -> str:
    return hashlib.sha256(checkpoint_uri.encode()).hexdigest()[:12]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        return f"pid{os.getppid()}"
