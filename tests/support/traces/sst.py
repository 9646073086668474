"""Reads RocksDB's sorted tables (`.sst`): the keys and values of every block, whatever its compression.

The format is RocksDB's block-based table of the versions 2 to 6 (`table/format.h`). Entries that were
overwritten or deleted are read too: they are in the file until RocksDB compacts it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

_MAGIC = 0x88E241B785F4CFF7
_FOOTER = 53
_TRAILER = 5
_NONE, _SNAPPY, _ZLIB, _LZ4, _LZ4HC, _ZSTD = 0, 1, 2, 4, 5, 7
_INDEX = b"rocksdb.index"


class Handle(NamedTuple):
    """Where a block is."""

    offset: int
    size: int


def is_table(content: bytes) -> bool:
    """Whether the bytes are such a table."""
    return len(content) > _FOOTER and struct.unpack_from("<Q", content, len(content) - 8)[0] == _MAGIC


def entries(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each key and each value of the data blocks."""
    for handle in _data_blocks(content):
        for key, value in _entries(_block(content, handle)):
            yield " key", key
            yield " value", value


def _data_blocks(content: bytes) -> Iterator[Handle]:
    footer = content[-_FOOTER:]
    version = struct.unpack_from("<I", footer, _FOOTER - 12)[0]
    if version >= 6:
        # The footer has the size of the index of meta blocks, which ends where the footer begins.
        size = struct.unpack_from("<I", footer, 1 + 4 + 4 + 4)[0]
        meta = Handle(len(content) - _FOOTER - _TRAILER - size, size)
        index = next(_handle(value, 0)[0] for key, value in _entries(_block(content, meta)) if key == _INDEX)
    else:
        _, at = _handle(footer, 1)
        index, _ = _handle(footer, at)
    block = _block(content, index)
    yield from _delta_index(block) if version >= 4 else (_handle(value, 0)[0] for _, value in _entries(block))


def _block(content: bytes, handle: Handle) -> bytes:
    raw = content[handle.offset : handle.offset + handle.size]
    kind = content[handle.offset + handle.size]
    if kind == _NONE:
        return raw
    if kind == _SNAPPY:
        return bytes(pa.decompress(raw, _varint(raw, 0)[0], "snappy", asbytes=True))
    size, at = _varint(raw, 0)
    if kind == _ZLIB:
        return zlib.decompress(raw[at:], -15)
    codecs = {_LZ4: "lz4_raw", _LZ4HC: "lz4_raw", _ZSTD: "zstd"}
    return bytes(pa.decompress(raw[at:], size, codecs[kind], asbytes=True))


def _end_of_entries(block: bytes) -> int:
    # The highest bit says that a hash index precedes the number of restarts.
    packed = int(struct.unpack_from("<I", block, len(block) - 4)[0])
    restarts = packed & 0x7FFFFFFF
    end = len(block) - 4 - 4 * restarts
    if packed >> 31:
        buckets = int(struct.unpack_from("<H", block, len(block) - 6)[0])
        end -= 2 + buckets
    return end


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    at, end, key = 0, _end_of_entries(block), b""
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        size, at = _varint(block, at)
        key = key[:shared] + block[at : at + own]
        at += own
        yield key, block[at : at + size]
        at += size


def _delta_index(block: bytes) -> Iterator[Handle]:
    """The entries of an index whose values are the sizes of blocks that follow each other."""
    at, end, last = 0, _end_of_entries(block), Handle(0, 0)
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        at += own
        if shared == 0:
            last, at = _handle(block, at)
        else:
            change, at = _varint(block, at)
            size = last.size + ((change >> 1) ^ -(change & 1))
            last = Handle(last.offset + last.size + _TRAILER, size)
        yield last


def _handle(content: bytes, at: int) -> tuple[Handle, int]:
    offset, at = _varint(content, at)
    size, at = _varint(content, at)
    return Handle(offset, size), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
