"""Which of a stream's checkpoints counts: a folder for each generation, and a document that names one.

A generation is a checkpoint with a query id of its own. An operation that goes back, moves or rewrites state
builds the next generation beside the current one, and makes it current by one write of the document.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from spark_jobs.runtime import storage
from spark_jobs.runtime.status import iso

POINTER = "current.json"
_VERSION = 1
_FOLDER = re.compile(r"g\d{4,}")


class PendingOperationError(RuntimeError):
    """An operation has begun to change the stream's tables and has not ended: nothing may run on them."""


@dataclass(frozen=True)
class Pending:
    """An operation from its first change to its last.

    Attributes:
        operation: Its id.
        verb: What it does.
        journal_uri: Where it keeps what it has begun and done.
    """

    operation: str
    verb: str
    journal_uri: str


@dataclass(frozen=True)
class Generation:
    """One checkpoint of a stream.

    Attributes:
        root: The folder of all of them.
        number: From 1.
        folder: Its name in the root; empty for a checkpoint from before there were generations, which lies in
            the root itself.
        pending: The operation that is under way; None almost always.
    """

    root: str
    number: int
    folder: str
    pending: Pending | None = None

    @property
    def uri(self) -> str:
        """The checkpoint's folder, as Spark is given it."""
        return f"{self.root}/{self.folder}" if self.folder else self.root

    def following(self) -> Generation:
        """The one after it."""
        number = self.number + 1
        return Generation(self.root, number, folder_of(number))

    def require_settled(self, stream: str) -> None:
        """Make sure that no operation is under way.

        Raises:
            PendingOperationError: One is; it died, or lost its lease.
        """
        if (pending := self.pending) is not None:
            raise PendingOperationError(
                f"stream {stream}: expected its checkpoint and tables to be of one time, found that "
                f"operation {pending.operation} began to change them and did not end. Run `stateward state "
                f"{pending.verb} {stream}` again, with the same fields, which finishes it "
                "(docs/state-operations.md)."
            )


def folder_of(number: int) -> str:
    """The folder of a generation in its root."""
    return f"g{number:04d}"


def is_beside(name: str) -> bool:
    """Whether a name in a root is no part of a checkpoint that lies in the root itself."""
    return name == POINTER or _FOLDER.fullmatch(name) is not None


def current(root: str) -> Generation:
    """The generation that counts. Without a document it is the first.

    Args:
        root: ``checkpoint_uri`` of the stream's configuration.

    Raises:
        ValueError: The document is not one of ours.
    """
    root = root.rstrip("/")
    document = storage.read_json(f"{root}/{POINTER}")
    if document is None:
        in_root = storage.read_text(f"{root}/metadata") is not None
        return Generation(root, 1, "" if in_root else folder_of(1))
    try:
        pending = document.get("pending")
        return Generation(
            root,
            int(document["generation"]),
            str(document["folder"]),
            None if pending is None else Pending(**pending),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{root}/{POINTER}: expected the generation and its folder, found {document!r} ({error}). "
            "Restore the document; without it the first generation would count."
        ) from error


def announce(generation: Generation, pending: Pending, at: datetime) -> None:
    """Write down that an operation is about to change what belongs to the current generation."""
    _write(replace(generation, pending=pending), pending.operation, at)


def make_current(generation: Generation, made_by: str, at: datetime) -> None:
    """Let a generation count from now on; the operation that was under way has ended with that.

    Args:
        generation: A whole checkpoint.
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
    storage.write_json(f"{generation.root}/{POINTER}", document)
