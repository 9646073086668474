"""Generations of a stream's checkpoint: one folder each, and a pointer document that names the current one.

A generation is a checkpoint with its own query id. An operation that restores, moves or rewrites state builds
the next generation beside the current one, and makes it current by one write of the pointer.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from stateward.contract import storage
from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.reading import iso

POINTER = "current.json"
UNFINISHED = "_unfinished.json"
"""File in an unfinished generation, which marks it as disposable."""
_VERSION = 1
_FOLDER = re.compile(r"g\d{4,}")


class PointerError(ConditionError, ValueError):
    """The pointer document is missing or invalid."""

    condition = Condition.GENERATION_UNKNOWN


class PendingOperationError(ConditionError, RuntimeError):
    """An operation has started to change the stream's tables and has not finished."""

    condition = Condition.OPERATION_PENDING


@dataclass(frozen=True)
class Pending:
    """An operation from its first change to its last.

    Attributes:
        operation: Its id.
        verb: What it does.
        journal_uri: Its journal.
    """

    operation: str
    verb: str
    journal_uri: str


@dataclass(frozen=True)
class Generation:
    """One checkpoint of a stream.

    Attributes:
        root: The folder of all of them.
        number: Its number, from 1.
        folder: Its name in the root; empty for a checkpoint without generations, which is in the root itself.
        pending: The operation in progress; usually None.
    """

    root: str
    number: int
    folder: str
    pending: Pending | None = None

    @property
    def uri(self) -> str:
        """The checkpoint's folder."""
        return f"{self.root}/{self.folder}" if self.folder else self.root

    def following(self) -> Generation:
        """The next generation."""
        number = self.number + 1
        return Generation(self.root, number, folder_of(number))

    def require_settled(self, stream: str) -> None:
        """Check that no operation is in progress.

        Raises:
            PendingOperationError: One is; it was killed, or lost its lease.
        """
        if (pending := self.pending) is not None:
            raise PendingOperationError(
                f"stream {stream}: expected its checkpoint and tables to be of one time, found that "
                f"operation {pending.operation} began to change them and did not end. To finish it, run "
                f"`stateward state {pending.verb} {stream}` again with the same fields "
                "(docs/state-operations.md)."
            )


def folder_of(number: int) -> str:
    """The folder of a generation in its root."""
    return f"g{number:04d}"


def root_of(uri: str) -> str:
    """The folder of all generations of a stream, from the folder of one."""
    root, _, folder = uri.rstrip("/").rpartition("/")
    return root if _FOLDER.fullmatch(folder) else uri.rstrip("/")


def uris_up_to(uri: str) -> list[str]:
    """The folders of a stream's generations up to the given one, including the root."""
    root, folder = root_of(uri), uri.rstrip("/").rpartition("/")[2]
    last = int(folder[1:]) if _FOLDER.fullmatch(folder) else 0
    return [root, *(f"{root}/{folder_of(number)}" for number in range(1, last + 1))]


def is_beside(name: str) -> bool:
    """Whether a name in a root is no part of a checkpoint that lies in the root itself."""
    return name == POINTER or _FOLDER.fullmatch(name) is not None


def current(root: str) -> Generation:
    """The generation that counts. Without a document it is the first, if there is no later one.

    Args:
        root: ``checkpoint_uri`` of the stream's configuration.

    Raises:
        PointerError: The document is not one of ours, or it is gone and there are later generations.
    """
    root = root.rstrip("/")
    try:
        document = storage.read_json(f"{root}/{POINTER}")
    except ValueError as error:
        raise _invalid_pointer(root, error) from error
    if document is None:
        return _first(root)
    try:
        pending = document.get("pending")
        return Generation(
            root,
            int(document["generation"]),
            str(document["folder"]),
            None if pending is None else Pending(**pending),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid_pointer(root, f"{document!r} ({error})") from error


def pin(following_uri: str, at: datetime) -> None:
    """Write the pointer to the current generation, before the next one is built beside it.

    From then on a second generation without a pointer means that the pointer was lost.

    Args:
        following_uri: The folder of the generation to build; no effect if it is no generation's folder.
        at: The time, aware.

    Raises:
        PointerError: See `current`.
    """
    root = root_of(following_uri)
    if root != following_uri.rstrip("/") and not storage.exists(f"{root}/{POINTER}"):
        _write(current(root), "", at)


def _first(root: str) -> Generation:
    names = storage.list_names(root)
    first = Generation(root, 1, "" if "metadata" in names else folder_of(1))
    found = [first.folder] if storage.exists(f"{first.uri}/metadata") else []
    later = [name for name in sorted(names) if _counts_perhaps(root, name) and name != folder_of(1)]
    if not later:
        return first
    choice = json.dumps({"version": _VERSION, "generation": int(later[-1][1:]), "folder": later[-1]})
    shown = ", ".join(_described(root, name) for name in [*found, *later])
    raise PointerError(
        f"{root}: expected {POINTER}, which names the current generation, found none beside {shown}. Nothing "
        f"was started. Restore the document from a backup, or choose a generation: for {later[-1]} write "
        f"{choice} into {root}/{POINTER}. The newest generation is the right one unless the operation that "
        "created it has failed (docs/state-operations.md)."
    )


def _counts_perhaps(root: str, name: str) -> bool:
    """Whether a name in a root is a finished generation, which may have been current."""
    uri = f"{root}/{name}"
    return (
        _FOLDER.fullmatch(name) is not None
        and storage.exists(f"{uri}/metadata")
        and not storage.exists(f"{uri}/{UNFINISHED}")
    )


def _described(root: str, folder: str) -> str:
    uri = f"{root}/{folder}" if folder else root
    batches = [int(name) for name in storage.list_names(f"{uri}/commits") if name.isdigit()]
    last = f"batch {max(batches)}" if batches else "no batch"
    return f"{folder or 'the checkpoint in the folder itself'} ({last})"


def _invalid_pointer(root: str, found: object) -> PointerError:
    return PointerError(
        f"{root}/{POINTER}: expected the current generation and its folder, found {found}. Restore the "
        "document from a backup (docs/state-operations.md); without it the first generation would be current."
    )


def announce(generation: Generation, pending: Pending, at: datetime) -> None:
    """Record an operation as pending before it changes the current generation or its tables."""
    _write(replace(generation, pending=pending), pending.operation, at)


def make_current(generation: Generation, made_by: str, at: datetime) -> None:
    """Make a generation the current one; this also ends the pending operation.

    Args:
        generation: A complete checkpoint.
        made_by: Id of the operation.
        at: The time, aware.
    """
    _write(replace(generation, pending=None), made_by, at)


def _write(generation: Generation, made_by: str, at: datetime) -> None:
    document: dict[str, Any] = {
        "version": _VERSION,
        "generation": generation.number,
        "folder": generation.folder,
        "made_by": made_by,
        "at": iso(at),
    }
    if generation.pending is not None:
        document["pending"] = asdict(generation.pending)
    # The generation must be on disk before its pointer; its files are not synced one by one.
    storage.sync_disks([generation.root])
    storage.write_json(f"{generation.root}/{POINTER}", document)
