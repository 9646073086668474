"""The search finds a text in each kind of file that the platform writes, and nothing where it is not."""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from stateward.runtime.keyed.sorted_run import CachedState, SortedRun
from tests.support.traces.search import traces_in, traces_in_database, traces_of

PERSON = "person-007"
OTHERS = [{"user": f"person-{number:03d}", "text": "a" * 60} for number in range(12)]
_LINES = "".join(json.dumps(row) + "\n" for row in OTHERS).encode()

# Twelve entries by RocksDB 9.8.4, as Spark writes them: format 5 with LZ4, and format 6 with Zstandard.
SORTED_TABLES = {
    "format 5": (
        "eNqNk81vG0UUwGc2Tr22t05c00rkQMwKbmTkdex8EAXURmqFhBElIZAUtJr1Pjuj7IeZGcd2UY5ISBxQDxyKQEL8BRWqhDghceHI"
        "/8CFHHtAlFt5s3YTV6pER5rRzJv3fu9j3ty3fiML7WMYr9TrdUoo+fVzV2muwX3T5ZS8/KTkvuEOFEg890GqNDGK7umlQts7IG9X"
        "cFlu4OZBwz0lOCjO3BXR/ev+DHj1RcGrGbhpwLgstwy4NQP+5NYvP8yC114UvJaB1w0Yl+UNA96YAZ8Fyx98OwPefB7YeQ540z2d"
        "L7a9+iF562vvoi4PvBn4vW9u/nvjIclP0A2yVyKvtw5KpLnxE3XIo6LnfWV9bLRLOK/hdI2VmTf1zhx5LSfTzrEKAxZEuGEBVxAy"
        "zYMImEhCGDE97oOxX1qkfQldMWJdEWmQIunVl6p0eJSiKnq/EHv24nwnjQZxwro8FtGYifAJjnzRXor7XHKdyghOIEKvN8YahkLB"
        "Tvr0xsnPSVBKpMm7h82qfY/6aV/jSQ0xnnToB0Kr7RWvuVXLGNurjfW19a2a0mgNvfF2fasW85Efio72A6QrI7mrdOgbMWqJ5EIO"
        "ick0fNZo0O2CvNDBV/Ez++w2A4Dc9rZqhWpRAteYMcNMRAiJFnq8u7tX+0gKLEXlsnWUKn1+cxJXFl9Sk9zOhR+2N6/v7ewetr13"
        "bu/fXn+v+X7roJynqKFFDMQuWCHXnClxF86sQolCBBpfCAuuiP2KDSN0lPDIV0r7+ALAelEamDN8lqRkOpbyuRNsKvRr4cku0clb"
        "ZVRSLNPRhMgiSHr6iBQu01TGXLOp0bx9lU6awSgJxUyjmj0t56hh3Cpfoyc8GoC5DCHCgCHppCGE1K7QjMxlD7AWk7DsMo0BBSzF"
        "XudJqEh1Lo9vnwyiqK+lvUCTQcyyxLO2VDknT7FeUoBynPI0fH8qIc4CRUoPVkJTHdMrBBFpFBqPxntWykKVStETWCyWFQpdBCCp"
        "fTU/7WuspeQdDIMlPIZpLMWKZYLUY4YtHYG5Vnc+tR1L8mHGNvk/pE7RmhTAHL/L2xVLcxEx/OJSs7TbVaDPrKeflvy+f3xKrpx/"
        "vb7MXGAqP879c+lcq7FfeJT7vvjqmdUi/zvmcT7+4+8vfr7+55f/AQm+nMM="
    ),
    "format 6": (
        "eNqFVF1oXEUUnrm7yb37k03itrEuKMvSh4DJuJtmm9gQoa1iC001JK221a53957djL0/68zsbjY1EBBBfLEKgi3+PdQ3EUGtCPrg"
        "q1j6oyA+CYrQihIEtRAo9czd3QTBtgMHzpw55zvnfHNmzhqjnz1087n7iGeQ8xEyOHcK2uP5fJ6S0zmpbAW5PTk7N5ZrSBCo1kHI"
        "wM+t9sfmCoWJidwqwUVR+sngmbX6e4mxDz/+aO3PHQcM8+Kxvy+f/X/0XXdHn5wsFu+E/uurO5+4Dfruu6NPTU1P3wl9z+WfDp/r"
        "oGfIqkHuiQ7e+/5j99966cL4W8Xsb6PvbovkD/0x9t31d4wLr3nr6/Whf5rNA9HTMP/mt1eOPC9/uX7ti6tXzReHPomciY2k+sil"
        "vm++Skxu4lek+JGYnXInyLGeWjy5qU5/SXt6oXDOOKFrTaCMoORQotpwaO2DB8nOqAgqp6RTZmUXFVa2JThM2WUXGPcdWGaqXQft"
        "nhmidQFVvsyq3FUguF/LZ9K0tRSgK6baMhesob5K4DY8n1Vtj7ttxp1buMy4lfHqtrBVIFxogotZ97UVtLiE/UHvJGlGBUjJA//4"
        "wuKjaet1WgrqCreyhQUFrVKZKzk7XpicyYYgs7smpnZPzWSlwnCotWfzM1nPXi45vKJKZYSX2rIilVPSZvTi/pYdfN2q89+gRrUK"
        "YssHJ6AUxoenIQCI2cJMNpaOC7AVtsywFe6Ar7hqLywsZp8SHLkYHjCWAqk2T5re8NA22Wlu03hk7uG9i/sXjs8VDs4fnZ86PPlk"
        "8WjKpOihuAfEihmOrWwm+QpsGLEEBRcUXhEyLon1gAXLmMi33ZKUqoRXAKzmBmW9hxf8gHRXxow2cYAxr4E7K0E7lxWikniKLncQ"
        "mQt+TS2R2AANhGcr1g3qt7bTzjRoJy6ZfhRap6ko1RiPp0Zo03YboA8dcLFg8CuBAw61hmmIbIsaIBedsqwU9QANLMB3ZfuOJOmI"
        "iZfvN1y3roQ1SP2Gx8LGw7mU0aRJkS/BQSaTqW75pa6FJAcpotRg3NHs6FkhCBG4js6os4dUxtJU8BpHslhIFKYog6DWdrM72Mil"
        "sCtYBvNtD7q1xIcNXaRqM5xpF/SxPPGslTSE3Qqxdf+f0mTc6BCgt2+b1rChbO4y/EmEYkG1KkFtGL0/g9y8eOUNMhDpvb2Q2w1j"
        "H34VPVNdhFmxu68jN/p1TBolRMh+/8Mz0UfICimuH+x7esfvo9Pk9kuH3rj018uf7/35lX8ByYbKiA=="
    ),
}


def _plain(file: Path) -> None:
    file.write_bytes(_LINES)


def _gzip(file: Path) -> None:
    file.write_bytes(gzip.compress(_LINES))


def _zlib(file: Path) -> None:
    file.write_bytes(zlib.compress(_LINES))


def _zstd(file: Path) -> None:
    with pa.CompressedOutputStream(str(file), "zstd") as stream:
        stream.write(_LINES)


def _lz4_frame(file: Path) -> None:
    with pa.CompressedOutputStream(str(file), "lz4") as stream:
        stream.write(_LINES)


def _lz4_blocks(file: Path) -> None:
    """As Spark writes a changelog: blocks of lz4-java, and an empty one at the end."""
    packed = pa.compress(_LINES, "lz4_raw", asbytes=True)
    header = struct.Struct("<8sBiii")
    end = header.pack(b"LZ4Block", 0x10, 0, 0, 0)
    file.write_bytes(header.pack(b"LZ4Block", 0x20, len(packed), len(_LINES), 0) + packed + end)


def _zip_of_gzip(file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.gz", gzip.compress(_LINES))


def _parquet(file: Path) -> None:
    pq.write_table(pa.Table.from_pylist(OTHERS), file, compression="zstd")


def _nested_parquet(file: Path) -> None:
    rows = [{"events": [{"value": json.dumps(row).encode()}]} for row in OTHERS]
    pq.write_table(pa.Table.from_pylist(rows), file, compression="zstd", use_dictionary=False)


def _sqlite(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE dags (data BLOB)")
        database.execute("INSERT INTO dags VALUES (?)", (zlib.compress(_LINES),))
    database.close()


def _base64_in_json(file: Path) -> None:
    file.write_text(json.dumps({"yaml": base64.b64encode(_LINES).decode()}))


def _escaped_in_json(file: Path) -> None:
    """A JSON text in a JSON text, with characters escaped that need not be."""
    inner = json.dumps({"user": PERSON}).replace("-", "\\u002d")
    file.write_text(json.dumps({"stats": inner}))


def _sorted_run(file: Path) -> None:
    states = {row["user"]: CachedState(0, 0, 1, json.dumps(row).encode()) for row in OTHERS}
    file.write_bytes(SortedRun.of(states).content)


def _sorted_table(name: str) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_bytes(zlib.decompress(base64.b64decode(SORTED_TABLES[name])))

    return write


KINDS: dict[str, tuple[Callable[[Path], None], bool]] = {
    "plain": (_plain, False),
    "gzip": (_gzip, True),
    "zlib": (_zlib, True),
    "zstd": (_zstd, True),
    "lz4 frame": (_lz4_frame, True),
    "lz4 blocks": (_lz4_blocks, True),
    "gzip in a zip": (_zip_of_gzip, True),
    "Parquet": (_parquet, True),
    "Parquet, nested": (_nested_parquet, True),
    "SQLite": (_sqlite, True),
    "Base64 in JSON": (_base64_in_json, True),
    "escapes in JSON": (_escaped_in_json, True),
    "copy of states": (_sorted_run, False),
    "RocksDB 5": (_sorted_table("format 5"), True),
    "RocksDB 6": (_sorted_table("format 6"), True),
}
"""How each kind is written, and whether a search of its bytes for the last person finds nothing."""


@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_a_text_in_each_kind_of_file(kind: str, tmp_path: Path) -> None:
    write, hides = KINDS[kind]
    file = tmp_path / "file"
    write(file)
    assert [trace.place for trace in traces_in(tmp_path, PERSON)][:1] == ["file"]
    assert not traces_in(tmp_path, "person-099")
    if hides and kind not in ("Parquet",):
        assert any(trace.inside for trace in traces_in(tmp_path, PERSON)), "found only in the bytes"


def test_compressed_rows_hide_from_a_search_of_bytes(tmp_path: Path) -> None:
    """The reason for decoding: a row group's statistics name the first and the last value only."""
    pq.write_table(pa.Table.from_pylist(OTHERS), tmp_path / "file", compression="zstd")
    assert PERSON.encode() not in (tmp_path / "file").read_bytes()
    assert [trace.inside for trace in traces_in(tmp_path, PERSON)] == ["Parquet column user"]


def test_it_finds_a_text_in_the_log_of_a_delta_table_and_in_its_checkpoint(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_deltalake(uri, pa.table({"user": [PERSON, PERSON]}))
    DeltaTable(uri).create_checkpoint()
    for file in (tmp_path / "table").glob("*.parquet"):
        file.unlink()
    found = {trace.place.rpartition("/")[2] for trace in traces_in(tmp_path, PERSON)}
    assert found == {"00000000000000000000.json", "00000000000000000000.checkpoint.parquet"}


def test_it_finds_a_text_in_the_name_of_a_file(tmp_path: Path) -> None:
    name = "ann@example.org"
    (tmp_path / f"user={quote(name, safe='')}").mkdir()
    assert [trace.inside for trace in traces_in(tmp_path, name)] == ["name"]


def test_it_finds_a_text_in_a_database_that_others_write(tmp_path: Path) -> None:
    """The rows that are only in the write-ahead log count."""
    file = tmp_path / "airflow.db"
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE dag_run (conf JSON)")
    database.execute("INSERT INTO dag_run VALUES (?)", (json.dumps({"key": PERSON}),))
    database.commit()
    assert [trace.place for trace in traces_in_database(file, PERSON)][:1] == ["dag_run.conf"]
    database.execute("UPDATE dag_run SET conf = '{}'")
    database.commit()
    assert traces_in_database(file, PERSON) == []
    database.close()


def test_a_file_that_is_cut_off_does_not_end_the_search(tmp_path: Path) -> None:
    """A file that is being written gives what it has."""
    with pa.CompressedOutputStream(str(tmp_path / "whole"), "zstd") as stream:
        stream.write(_LINES)
    cut = (tmp_path / "whole").read_bytes()[:40]
    assert list(traces_of("cut", cut, "person-099")) == []
