"""Commands that a running batch job takes one after the other, so that they share its Spark session.

A command is the list of arguments with which a job of its own would be started, as a JSON file in a folder
of the host. Who puts one there waits until it is done, or starts a job itself when none is left.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

_WAITING, _TAKEN = ".json", ".taken"


class JobQueue:
    """The commands in a folder.

    Args:
        folder: The folder; jobs that share it have the same Spark settings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, arguments: Sequence[str], now: datetime) -> QueuedCommand:
        """Add a command behind those that are there.

        Args:
            arguments: What a job of its own would be started with.
            now: The time, by which commands are ordered.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        queued = QueuedCommand(self.folder / f"{now.astimezone(UTC):%Y%m%dT%H%M%S.%f}-{uuid.uuid4().hex}")
        written = queued.stem.with_name(f"{queued.stem.name}.written")
        written.write_bytes(msgspec.json.encode(list(arguments)))
        written.rename(queued.waiting)
        return queued

    def forget_taken(self) -> None:
        """Drop what a job took that has ended before it was done; for who knows that no job runs."""
        for file in self.folder.glob(f"*{_TAKEN}"):
            file.unlink(missing_ok=True)

    @contextmanager
    def take(self) -> Iterator[list[str] | None]:
        """Take the oldest command, which is done once the block ends; None if there is none.

        Raises:
            ValueError: The file is no list of texts; it is gone afterwards.
        """
        for file in sorted(self.folder.glob(f"*{_WAITING}")):
            queued = QueuedCommand(file.with_suffix(""))
            try:
                queued.waiting.rename(queued.taken)
            except FileNotFoundError:
                continue  # withdrawn
            try:
                yield _arguments_in(queued.taken)
            finally:
                queued.taken.unlink(missing_ok=True)
            return
        yield None


class QueuedCommand:
    """One command in the queue.

    Args:
        stem: Its file without the ending.
    """

    def __init__(self, stem: Path) -> None:
        self.stem = stem

    @property
    def waiting(self) -> Path:
        """Its file until a job takes it."""
        return self.stem.with_name(self.stem.name + _WAITING)

    @property
    def taken(self) -> Path:
        """Its file while a job has it."""
        return self.stem.with_name(self.stem.name + _TAKEN)

    def is_done(self) -> bool:
        """Whether a job has come to its end, or has ended with it."""
        return not (self.waiting.exists() or self.taken.exists())

    def withdraw(self) -> None:
        """Remove it; a job that has taken it goes on."""
        self.waiting.unlink(missing_ok=True)


def _arguments_in(file: Path) -> list[str]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[str])
    except msgspec.DecodeError as error:
        raise ValueError(f"{file.name}: expected a list of texts, found another document: {error}") from None
