"""The checksum file ``.NAME.crc`` that Hadoop writes beside each file on a local disk.

Spark checks it when it reads a file; a copy without Spark checks it here. Object stores have none.
"""

from __future__ import annotations

import struct
import zlib

_HEADER = struct.Struct(">4sI")
_MAGIC = b"crc\0"


class HadoopChecksum:
    """Verifies a file against its checksum file while it is read.

    Args:
        content: The content of the checksum file.

    Raises:
        ValueError: The content is no checksum file.
    """

    def __init__(self, content: bytes) -> None:
        if len(content) < _HEADER.size or not content.startswith(_MAGIC):
            raise ValueError("expected a checksum file of Hadoop's, found another file")
        self._expected = content[_HEADER.size :]
        self._size = _HEADER.unpack_from(content)[1]
        self._rest = b""
        self._found = bytearray()

    def update(self, chunk: bytes) -> None:
        """Add the next part of the file."""
        data = self._rest + chunk if self._rest else chunk
        whole = len(data) - len(data) % self._size
        view = memoryview(data)
        for begin in range(0, whole, self._size):
            self._found += zlib.crc32(view[begin : begin + self._size]).to_bytes(4)
        self._rest = data[whole:]

    def holds(self) -> bool:
        """Whether the file, now complete, matches its checksum."""
        if self._rest:
            self._found += zlib.crc32(self._rest).to_bytes(4)
            self._rest = b""
        return bytes(self._found) == self._expected
