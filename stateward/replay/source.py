"""Read the lines of a file, plain or gzip, or of standard input."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_GZIP_MAGIC = b"\x1f\x8b"


class LineSource:
    """The lines of a file as bytes, without their line feeds. Use as a context manager.

    Attributes:
        total_bytes: size of the file as stored, None for standard input.
    """

    def __init__(self, path: str, stdin: IO[bytes] | None = None) -> None:
        """Open `path`; `-` is standard input.

        Raises:
            OSError: the file cannot be opened.
        """
        if path == "-":
            raw: IO[bytes] = stdin if stdin is not None else sys.stdin.buffer
            size = None
        else:
            raw = Path(path).open("rb")  # noqa: SIM115 - closed by __exit__
            size = Path(path).stat().st_size
        self.total_bytes: int | None = size
        self._raw = raw
        self._counted = _Counting(raw)
        buffered = io.BufferedReader(self._counted, 1 << 16)
        # By content, not by name: standard input has none.
        is_gzip = buffered.peek(2)[:2] == _GZIP_MAGIC
        self._lines: io.BufferedIOBase = gzip.GzipFile(fileobj=buffered) if is_gzip else buffered

    @property
    def bytes_read(self) -> int:
        """How much of the stored file has been read so far."""
        return self._counted.count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield each line without its line feed; a carriage return is part of the line.

        Raises:
            EOFError, OSError: a gzip file is cut short or damaged; the lines before that were yielded.
        """
        for line in self._lines:
            yield line.removesuffix(b"\n")


class _Counting(io.RawIOBase):
    """Counts the bytes read through it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)
