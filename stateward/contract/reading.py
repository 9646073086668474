"""From a document to a struct and back: unknown fields are passed over, and what is wrong is named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

Document = TypeVar("Document", bound=msgspec.Struct)

_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_MISSING = re.compile(r"Object missing required field `([^`]+)`")


class InvalidDocumentError(ValueError):
    """A document is not of the form that its reader needs."""


def read_as(kind: type[Document], document: Mapping[str, Any], origin: str) -> Document:
    """The document as a struct.

    Args:
        kind: The struct; fields of a later release are not in it, those that an earlier one lacks have
            defaults.
        document: What was read.
        origin: Where, for the error.

    Raises:
        InvalidDocumentError: A field is missing, or of another type. The text names it, and what was found.
    """
    try:
        return msgspec.convert(dict(document), kind)
    except msgspec.ValidationError as error:
        raise InvalidDocumentError(f"{origin}: {_in_words(str(error), document)}") from None


def as_json(document: msgspec.Struct) -> dict[str, Any]:
    """A struct as its JSON document has it, with lists for tuples and texts for times."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return found


def require_version(document: Mapping[str, Any] | None, version: int, origin: str, remedy: str) -> None:
    """Check the version of a document.

    Raises:
        InvalidDocumentError: It is another one, or there is no document.
    """
    found = None if document is None else document.get("version")
    if found != version:
        was = "nothing" if document is None else repr(found)
        raise InvalidDocumentError(f"{origin}: expected version {version}, found {was}: {remedy}")


def _in_words(text: str, document: Mapping[str, Any]) -> str:
    text, _, at = text.partition(" - at `$")
    path = at.rstrip("`").lstrip(".").partition("[")[0]
    if missing := _MISSING.fullmatch(text):
        return f"{'.'.join(filter(None, (path, missing[1])))}: expected a value, found nothing"
    value: Any = document
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    found = "nothing" if value is None else repr(value)
    if wrong := _WRONG_TYPE.fullmatch(text):
        return f"{path}: expected {wrong[1]}, found {found}"
    if text.startswith("Invalid RFC3339"):
        return f"{path}: expected an ISO 8601 time, found {found}"
    return ": ".join(filter(None, (path, text)))
