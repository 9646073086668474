"""The checksum that Hadoop keeps beside each file it writes to a local disk, ``.NAME.crc``.

Spark itself looks at it when it reads a file; a copy that is made without Spark looks at it here. An object
store has none.
"""

from __future__ import annotations

import struct
import zlib

_HEADER = struct.Struct(">4sI")
_MAGIC = b"crc\0"


class HadoopChecksum:
    """Compares a file with its checksum file while it is read.

    Args:
        content: Of the checksum file.

    Raises:
        ValueError: It is not one.
    """

    def __init__(self, content: bytes) -> None:
        if len(content) < _HEADER.size or not content.startswith(_MAGIC):
            raise ValueError("expected a checksum file of Hadoop's, found another file")
        self._expected = content[_HEADER.size :]
        self._size = _HEADER.unpack_from(content)[1]
        self._rest = b""
        self._found = bytearray()

    def update(self, chunk: bytes) -> None:
        """Take the next part of the file."""
        data = self._rest + chunk if self._rest else chunk
        whole = len(data) - len(data) % self._size
        view = memoryview(data)
        for begin in range(0, whole, self._size):
            self._found += zlib.crc32(view[begin : begin + self._size]).to_bytes(4)
        self._rest = data[whole:]

    def holds(self) -> bool:
        """Whether the file, now read to its end, is what was written."""
        if self._rest:
            self._found += zlib.crc32(self._rest).to_bytes(4)
            self._rest = b""
        return bytes(self._found) == self._expected
