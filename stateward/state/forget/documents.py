"""Documents, pages and logs that name a key: what can be made again is removed, in the rest it is erased."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from stateward.contract.storage import delete, filesystem_at, list_names, write_text
from stateward.state.forget.subject import Subject

_TEXTS = (".json", ".jsonl", ".html", ".log", ".txt", ".yaml", ".yml", ".css", ".js")


def erase_in(uri: str, subject: Subject) -> int:
    """Erase a key in every text below a folder, or in one text; returns the number of changed files."""
    changed = 0
    for path, text in _texts(uri):
        if (erased := subject.erased(text)) != text:
            write_text(path, erased)
            changed += 1
    return changed


def remove_operations(operations_uri: str, logs_uri: str, subject: Subject, keep: Collection[str]) -> int:
    """Remove the folders and logs of operations that name a key, such as an explanation of its state.

    Args:
        operations_uri: The folder of all operations on a stream.
        logs_uri: The folder of their logs.
        subject: The key.
        keep: Operations that stay.

    Returns:
        How many were removed.
    """
    removed = 0
    for name in list_names(operations_uri):
        if name in keep:
            continue
        places = (f"{operations_uri}/{name}", f"{logs_uri}/{name}.log")
        if any(subject.is_in_text(text) for place in places for _, text in _texts(place)):
            for place in places:
                delete(place)
            removed += 1
    return removed


def _texts(uri: str) -> Iterator[tuple[str, str]]:
    """The URI and the content of each text at or below a URI."""
    filesystem, root = filesystem_at(uri)
    if not filesystem.exists(root):
        return
    for path in filesystem.find(root):
        if str(path).endswith(_TEXTS):
            text = _text(filesystem, path)
            if text is not None:
                yield filesystem.unstrip_protocol(path), text


def _text(filesystem: Any, path: str) -> str | None:
    try:
        content: bytes = filesystem.cat_file(path)
        return content.decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
