"""What is inside some bytes: archives, compressed streams, tables, databases and texts in texts.

Compressed rows hide from a search of bytes, so each layer is taken off. The formats are recognised by their
content, because names of files differ between releases.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import re
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.traces import sst

Layer = tuple[str, bytes]
"""What was taken off, and what was inside."""

_GZIP, _ZIP, _PARQUET, _SQLITE = b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"SQLite format 3\x00"
_ZSTD, _LZ4_FRAME, _LZ4_BLOCK = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"LZ4Block"
_ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_BASE64 = re.compile(r"[A-Za-z0-9+/\n]{16,}={0,2}")
_LZ4_HEADER = struct.Struct("<8sBiii")
_RAW_METHOD = 0x10


def layers(content: bytes) -> Iterator[Layer]:
    """Yield what is directly inside."""
    for name, is_one, inside in _FORMATS:
        if is_one(content):
            yield from ((f"{name}{part}", found) for part, found in inside(content))
            return
    yield from _in_text(content)


def _stream(codec: str) -> Callable[[bytes], Iterator[Layer]]:
    def inside(content: bytes) -> Iterator[Layer]:
        with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
            yield "", _all_that_comes(stream)

    return inside


def _all_that_comes(stream: Any) -> bytes:
    """Read to the end; a stream that ends early, as one that is being written, gives what it has."""
    found = []
    try:
        while piece := stream.read(1 << 20):
            found.append(piece)
    except OSError:
        pass
    return b"".join(found)


def _gzip(content: bytes) -> Iterator[Layer]:
    yield "", gzip.decompress(content)


def _zlib(content: bytes) -> Iterator[Layer]:
    try:
        yield "", zlib.decompress(content)
    except zlib.error:
        return


def _zip(content: bytes) -> Iterator[Layer]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.namelist():
            yield f" {member}", archive.read(member)


def _lz4_blocks(content: bytes) -> Iterator[Layer]:
    """The framing of lz4-java, which Spark uses for changelogs and delta files."""
    found, at = [], 0
    while at + _LZ4_HEADER.size <= len(content):
        magic, token, packed, size, _ = _LZ4_HEADER.unpack_from(content, at)
        if magic != _LZ4_BLOCK:
            raise ValueError(f"expected a block at {at}, found {magic!r}")
        at += _LZ4_HEADER.size
        block = content[at : at + packed]
        at += packed
        if size:
            is_raw = token & 0xF0 == _RAW_METHOD
            found.append(block if is_raw else pa.decompress(block, size, "lz4_raw", asbytes=True))
    yield "", b"".join(found)


def _parquet(content: bytes) -> Iterator[Layer]:
    """Each value of each column, and what the footer says: statistics and key-value metadata."""
    file = pq.ParquetFile(io.BytesIO(content))
    for group in range(file.metadata.num_row_groups):
        columns = file.metadata.row_group(group)
        for number in range(columns.num_columns):
            column = columns.column(number)
            stats = column.statistics
            if stats is not None and stats.has_min_max:
                for value in (stats.min, stats.max):
                    yield f" statistics of {column.path_in_schema}", _bytes(value)
    for key, value in (file.metadata.metadata or {}).items():
        yield " metadata", key + b"=" + value
    for batch in file.iter_batches(batch_size=1000):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for value in _values(column.to_pylist()):
                yield f" column {name}", value


def _values(value: Any) -> Iterator[bytes]:
    """The texts and bytes in nested values."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _values(key)
            yield from _values(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _values(one)
    elif isinstance(value, str | bytes):
        yield _bytes(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def _sqlite(content: bytes) -> Iterator[Layer]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy.db")
        copy.write_bytes(content)
        # A database that was copied without its log is opened by its own pages.
        with sqlite3.connect(f"file:{copy}?immutable=1", uri=True) as database:
            yield from rows_of(database)


def rows_of(database: sqlite3.Connection) -> Iterator[Layer]:
    """Each value of each row of a database."""
    database.text_factory = bytes
    tables = [
        name.decode() for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    for table in tables:
        cursor = database.execute(f'SELECT * FROM "{table}"')
        names = [column[0] for column in cursor.description]
        for row in cursor:
            for name, value in zip(names, row, strict=True):
                if isinstance(value, bytes):
                    yield f" {table}.{name}", value


def _sst(content: bytes) -> Iterator[Layer]:
    yield from sst.entries(content)


def _in_text(content: bytes) -> Iterator[Layer]:
    """The texts of JSON, also of JSON lines, and of what is written in Base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    whole = _json(text)
    documents = [whole] if whole is not None else [_json(line) for line in text.splitlines()]
    for document in documents:
        if isinstance(document, dict | list | str):
            for value in _values(document):
                if value != content:
                    yield " JSON", value
    if _BASE64.fullmatch(text.strip()):
        try:
            yield " Base64", base64.b64decode(text, validate=False)
        except binascii.Error:
            return


def _json(text: str) -> Any:
    if text[:1] not in '{["' or not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _begins(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda content: content.startswith(magics)


_FORMATS: tuple[tuple[str, Callable[[bytes], bool], Callable[[bytes], Iterator[Layer]]], ...] = (
    ("gzip", _begins(_GZIP), _gzip),
    ("zip", _begins(_ZIP), _zip),
    ("zstd", _begins(_ZSTD), _stream("zstd")),
    ("lz4", _begins(_LZ4_FRAME), _stream("lz4")),
    ("lz4 blocks", _begins(_LZ4_BLOCK), _lz4_blocks),
    ("zlib", _begins(*_ZLIB), _zlib),
    ("Parquet", lambda content: content[:4] == content[-4:] == _PARQUET and len(content) > 8, _parquet),
    ("SQLite", _begins(_SQLITE), _sqlite),
    ("RocksDB", sst.is_table, _sst),
)
