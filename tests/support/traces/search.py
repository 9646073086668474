"""Finds a text in a folder of any files, and in a database: see `layers`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from tests.support.traces.layers import layers, rows_of

_DEEPEST = 8


@dataclass(frozen=True, order=True)
class Trace:
    """Where a text was found.

    Attributes:
        place: The file, or the database.
        inside: What had to be taken off, from the outside to the inside; empty for the bytes themselves.
    """

    place: str
    inside: str


def traces_in(root: Path, text: str) -> list[Trace]:
    """Search each file below a folder, its name included; a file that goes away meanwhile is passed over."""
    found: set[Trace] = set()
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if text in unquote(name):
            found.add(Trace(name, "name"))
        if not path.is_file():
            continue
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        found.update(traces_of(name, content, text))
    return sorted(found)


def traces_of(place: str, content: bytes, text: str) -> Iterator[Trace]:
    """Search some bytes and all that is inside them."""
    forms = _forms(text)
    for inside in _search(content, forms, ""):
        yield Trace(place, inside)


def traces_in_database(file: Path, text: str) -> list[Trace]:
    """Search every row of an SQLite database that others may write."""
    found: set[Trace] = set()
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        for place, value in rows_of(database):
            found.update(Trace(place.strip(), inside) for inside in _search(value, _forms(text), ""))
    return sorted(found)


def _search(content: bytes, forms: Iterable[bytes], inside: str, depth: int = 0) -> Iterator[str]:
    if any(form in content for form in forms):
        yield inside
    if depth == _DEEPEST or not content:
        return
    for layer, within in layers(content):
        yield from _search(within, forms, f"{inside} > {layer}" if inside else layer, depth + 1)


def _forms(text: str) -> tuple[bytes, ...]:
    """The bytes by which a text is written."""
    escaped = json.dumps(text)[1:-1].encode()
    return tuple({text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be"), escaped})
