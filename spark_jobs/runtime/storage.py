"""Small documents at a URI: read whole, written whole."""

from __future__ import annotations

import json
from typing import Any

import fsspec

from spark_jobs.runtime.durable import replace_file


def read_json(uri: str) -> dict[str, Any] | None:
    """The JSON object at ``uri``, or None if nothing is there.

    Raises:
        ValueError: What is there is not a JSON object.
    """
    text = read_text(uri)
    if text is None:
        return None
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError(f"{uri}: expected a JSON object, found {type(document).__name__}")
    return document


def read_text(uri: str) -> str | None:
    """The text at ``uri``, or None if nothing is there."""
    filesystem, path = fsspec.core.url_to_fs(uri)
    try:
        return str(filesystem.cat_file(path).decode())
    except FileNotFoundError:
        return None


def write_json(uri: str, document: dict[str, Any]) -> None:
    """Write ``document`` so that a reader sees the old or the new whole, never a part.

    The new one survives a power loss from then on (`durable.replace_file`).
    """
    write_text(uri, json.dumps(document, separators=(",", ":")))


def write_text(uri: str, text: str) -> None:
    """Write ``text`` in the same way."""
    _write(uri, text, durable=True)


def write_passing(uri: str, text: str) -> None:
    """Write ``text`` that only says how things are, again and again: a power loss may take it."""
    _write(uri, text, durable=False)


def _write(uri: str, text: str, *, durable: bool) -> None:
    filesystem, path = fsspec.core.url_to_fs(uri)
    if "file" in filesystem.protocol:
        replace_file(path, text.encode(), durable=durable)
    else:
        filesystem.pipe_file(path, text.encode())  # object stores put a whole object at once


def exists(uri: str) -> bool:
    """Whether there is a file or an object at ``uri``."""
    filesystem, path = fsspec.core.url_to_fs(uri)
    return bool(filesystem.exists(path))


def list_names(uri: str) -> list[str]:
    """The last parts of the paths in the folder ``uri``; empty if there is no such folder."""
    filesystem, path = fsspec.core.url_to_fs(uri)
    try:
        return [str(entry).rstrip("/").rpartition("/")[2] for entry in filesystem.ls(path, detail=False)]
    except FileNotFoundError:
        return []
