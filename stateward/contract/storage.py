"""Small documents at a URI: read whole, written whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stateward.contract.durable import replace_file


class CorruptDocumentError(ValueError):
    """A document is there, and is not a JSON object."""


def read_json(uri: str) -> dict[str, Any] | None:
    """The JSON object at `uri`, or None when nothing is there.

    Raises:
        CorruptDocumentError: The content is not a JSON object.
        OSError: The storage cannot be read.
    """
    content = _read(uri)
    if content is None:
        return None
    try:
        value = json.loads(content)
    except ValueError as error:
        raise CorruptDocumentError(
            f"{uri}: expected a JSON object, found {content[:80]!r} ({error})"
        ) from error
    if not isinstance(value, dict):
        raise CorruptDocumentError(f"{uri}: expected a JSON object, found {type(value).__name__}")
    return value


def read_text(uri: str) -> str | None:
    """The text at `uri`, or None when nothing is there.

    Raises:
        OSError: The storage cannot be read.
    """
    content = _read(uri)
    return None if content is None else content.decode()


def write_json(uri: str, document: Mapping[str, Any]) -> None:
    """Replace the document at `uri`; a reader sees the old one or the new one, never a part.

    The new one survives a power loss from then on (`durable.replace_file`).

    Raises:
        OSError: The storage cannot be written.
        TypeError: `document` holds something JSON has no form for.
    """
    write_text(uri, json.dumps(document, separators=(",", ":")))


def write_text(uri: str, text: str) -> None:
    """Write `text` in the same way."""
    _write(uri, text, durable=True)


def write_passing(uri: str, text: str) -> None:
    """Write `text` that only says how things are, again and again: a power loss may take it."""
    _write(uri, text, durable=False)


def exists(uri: str) -> bool:
    """Whether there is a file or an object at `uri`."""
    filesystem, path = _at(uri)
    return bool(filesystem.exists(path))


def list_names(uri: str) -> list[str]:
    """The last parts of the paths in the folder `uri`; empty if there is no such folder."""
    filesystem, path = _at(uri)
    try:
        return [str(entry).rstrip("/").rpartition("/")[2] for entry in filesystem.ls(path, detail=False)]
    except FileNotFoundError:
        return []


def _read(uri: str) -> bytes | None:
    filesystem, path = _at(uri)
    try:
        content: bytes = filesystem.cat_file(path)
    except FileNotFoundError:
        return None
    return content


def _write(uri: str, text: str, *, durable: bool) -> None:
    filesystem, path = _at(uri)
    if "file" in filesystem.protocol:
        replace_file(Path(path), text.encode(), durable=durable)
    else:
        filesystem.pipe_file(path, text.encode())  # object stores put a whole object at once


def _at(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path there."""
    import fsspec

    found: tuple[Any, str] = fsspec.core.url_to_fs(uri)
    return found
