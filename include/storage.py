"""JSON documents at a URI, and files, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upath import UPath


class CorruptDocumentError(ValueError):
    """A document is there, and is not a JSON object."""


def read_json(uri: str) -> dict[str, Any] | None:
    """Return the JSON object at `uri`, or None when there is none.

    Raises:
        CorruptDocumentError: the content is not a JSON object.
        OSError: the storage cannot be read.
    """
    try:
        content = UPath(uri).read_bytes()
    except FileNotFoundError:
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


def write_json(uri: str, value: Mapping[str, Any]) -> None:
    """Replace the document at `uri` by `value`; a reader sees the old one or the new one, never a part.

    Raises:
        OSError: the storage cannot be written.
        TypeError: `value` holds something JSON has no form for.
    """
    content = json.dumps(value, indent=1, ensure_ascii=False).encode()
    path = UPath(uri)
    if path.protocol in ("", "file", "local"):
        replace_file(Path(path.path), content)
    else:
        # Object stores show an object only once it is complete, and cannot rename one cheaply.
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file, whose folder is made; a reader, a death or a power loss finds the old or the new whole.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp is private to its user; parts may run as another one (docker-compose).
        temporary.chmod(0o644)
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
