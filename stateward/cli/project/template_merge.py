"""What becomes of one file of a project when its template changes: a three-way merge, done by git."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Kind(StrEnum):
    """What is done with a file."""

    NEW = "new"
    UPDATED = "updated"
    """It was as its template, and has the new one."""
    MERGED = "merged"
    """It has the person's edits and those of the template."""
    CONFLICT = "conflict"
    """Both changed the same lines; both versions are in it, between markers."""
    REMOVED = "removed"
    """It was as its template, and there is no such template any more."""
    KEPT = "kept"
    """It stays as it is; the note says why."""


@dataclass(frozen=True)
class Change:
    """What is done with one file.

    Attributes:
        path: Its path in the project.
        kind: What is done.
        content: What it has afterwards; None if nothing is written.
        note: What a person has to know.
    """

    path: Path
    kind: Kind
    content: bytes | None = None
    note: str = ""


class Merged(NamedTuple):
    """The result of a three-way merge.

    Attributes:
        content: The file.
        is_clean: Whether it has no conflicts.
    """

    content: bytes
    is_clean: bool


class MergeError(RuntimeError):
    """A file cannot be merged."""


Merge = Callable[[bytes, bytes, bytes], Merged]
"""Merges the former template, the file of the project, and the template."""

_YOURS = "yours"
_MARKED = re.compile(rb"^<<<<<<< yours\r?$.*^>>>>>>> ", re.MULTILINE | re.DOTALL)

_NO_BASE = "which differs from the template, and has no record of a former one"
_DELETED = "which was deleted here; stateward init writes it again"
_NO_TEMPLATE = "which was changed here, and is no file of the templates any more"


def change_of(
    path: Path, base: bytes | None, mine: bytes | None, new: bytes | None, merge: Merge
) -> Change | None:
    """Decide what is done with a file; None if nothing is.

    Args:
        path: Its path in the project.
        base: What the template was when the project last took it; None if that is not recorded.
        mine: The file; None if there is none.
        new: What the template is; None if there is none any more.
        merge: Called when both have changed.
    """
    if new in (base, mine):
        return None
    if mine == base:
        kind = Kind.NEW if mine is None else Kind.REMOVED if new is None else Kind.UPDATED
        return Change(path, kind, new)
    if base is None or mine is None or new is None:
        note = _NO_BASE if base is None else _DELETED if mine is None else _NO_TEMPLATE
        return Change(path, Kind.KEPT, note=note)
    merged = merge(base, mine, new)
    return Change(path, Kind.MERGED if merged.is_clean else Kind.CONFLICT, merged.content)


def has_markers(content: bytes) -> bool:
    """Whether a file has a conflict of `merge_by_git` that is not resolved."""
    return bool(_MARKED.search(content))


def merge_by_git(base: bytes, mine: bytes, new: bytes, *, before: str, after: str) -> Merged:
    """Merge with `git merge-file`; the conflicts have the former template too.

    Args:
        base: The former template.
        mine: The file of the project.
        new: The template.
        before: Name of the former template at the markers.
        after: Name of the template at the markers.

    Raises:
        MergeError: There is no git, or one of them is no text.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("mine", mine), ("base", base), ("new", new)):
            Path(folder, name).write_bytes(content)
        labels = [part for label in (_YOURS, before, after) for part in ("-L", label)]
        command = ["git", "merge-file", "-p", "-q", "--diff3", *labels, "mine", "base", "new"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        except FileNotFoundError as error:
            raise MergeError("expected git, which merges the templates, found none. Install git") from error
    # The number of conflicts, 127 at most; an error is 255.
    if not 0 <= done.returncode <= 127:
        raise MergeError(f"git merge-file failed: {done.stderr.decode(errors='replace').strip()}")
    return Merged(done.stdout, is_clean=done.returncode == 0)
