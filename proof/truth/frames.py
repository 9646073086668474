"""Records from the generator: frames of MessagePack, each after its length in four bytes.

A frame is ``[topic, [[mark, key, value, reason, field], ...]]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import msgspec

from proof.traffic.records import Record
from proof.truth.expected import TruthError

_LENGTH_BYTES = 4


def read_frames(source: IO[bytes]) -> Iterator[tuple[str, list[Record]]]:
    """Yield topics and their records until the source ends.

    Raises:
        TruthError: It ends within a frame, or has other content.
    """
    decode = msgspec.msgpack.Decoder(tuple[str, list[Record]]).decode
    while head := source.read(_LENGTH_BYTES):
        length = int.from_bytes(head, "big")
        body = source.read(length)
        if len(head) < _LENGTH_BYTES or len(body) < length:
            raise TruthError("the records ended within a frame: whoever makes them was stopped; run it again")
        try:
            yield decode(body)
        except msgspec.DecodeError as error:
            raise TruthError(f"expected a frame of records, found something else: {error}") from error
