"""From a document to a struct and back: unknown fields are ignored, and errors name what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec

Document = TypeVar("Document", bound=msgspec.Struct)

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone; in JSON as ISO 8601."""

_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_MISSING = re.compile(r"Object missing required field `([^`]+)`")


class InvalidDocumentError(ValueError):
    """A document does not have the form that its reader needs."""


def read_as(kind: type[Document], document: Mapping[str, Any], origin: str) -> Document:
    """Read a document into a struct.

    Args:
        kind: The struct. It has no fields of a later release, and defaults for those that an earlier release
            lacks.
        document: What was read.
        origin: Where, for the error.

    Raises:
        InvalidDocumentError: A field is missing or has another type. The text names it, and what was found.
    """
    try:
        return msgspec.convert(dict(document), kind)
    except msgspec.ValidationError as error:
        _, found = _explain(kind, str(error), document)
        raise InvalidDocumentError(f"{origin}: {found}") from None


def read_tolerantly(
    kind: type[Document], document: Mapping[str, Any], origin: str
) -> tuple[Document, list[str]]:
    """Read a document into a struct, with the default for each field that has another type.

    Args:
        kind: The struct.
        document: What was read.
        origin: Where, for the errors.

    Returns:
        The struct, and an error for each field that was left out.

    Raises:
        InvalidDocumentError: A field without a default is missing or has another type.
    """
    left = dict(document)
    errors: list[str] = []
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    while True:
        try:
            return msgspec.convert(left, kind), errors
        except msgspec.ValidationError as error:
            path, found = _explain(kind, str(error), left)
            errors.append(f"{origin}: {found}")
            name = path.partition(".")[0]
            if name in required or name not in left:
                raise InvalidDocumentError(errors[-1]) from None
            del left[name]


def as_json(document: msgspec.Struct) -> dict[str, Any]:
    """Return a struct as its JSON document, with lists for tuples and texts for times."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return found


def parse_time(value: object) -> datetime:
    """Read an ISO 8601 time with its zone.

    Raises:
        InvalidDocumentError: It is no text, no time, or has no zone.
    """
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise InvalidDocumentError(f"expected a time such as 2026-01-31T12:00:00Z, found {value!r}")
    return parsed.astimezone(UTC)


def format_time(value: datetime) -> str:
    """Write a time as the documents have it: UTC, microseconds, `Z`."""
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def iso(moment: datetime) -> str:
    """``moment`` as ISO 8601 UTC with milliseconds and ``Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_ms(milliseconds: int) -> str:
    """Milliseconds since 1970 as ISO 8601 UTC."""
    return iso(datetime.fromtimestamp(milliseconds / 1000, UTC))


def require_version(document: Mapping[str, Any] | None, version: int, origin: str, remedy: str) -> None:
    """Check the version of a document.

    Raises:
        InvalidDocumentError: It is another one, or there is no document.
    """
    found = None if document is None else document.get("version")
    if found != version:
        was = "nothing" if document is None else repr(found)
        raise InvalidDocumentError(f"{origin}: expected version {version}, found {was}: {remedy}")


def _explain(kind: type[msgspec.Struct], text: str, document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path of the field that is wrong, and what was expected and found there."""
    text, _, at = text.partition(" - at `$")
    path = at.rstrip("`").lstrip(".").partition("[")[0]
    if missing := _MISSING.fullmatch(text):
        return path, f"{'.'.join(filter(None, (path, missing[1])))}: expected a value, found nothing"
    value: Any = document
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    found = "nothing" if value is None else repr(value)
    if text.startswith("Invalid enum value"):
        return path, f"{path}: expected one of {', '.join(_choices(kind, path))}, found {found}"
    if text.startswith("Invalid RFC3339") or "timezone" in text:
        return path, f"{path}: expected a time such as 2026-01-31T12:00:00Z, found {found}"
    if wrong := _WRONG_TYPE.fullmatch(text):
        return path, f"{path}: expected {wrong[1]}, found {found}"
    return path, ": ".join(filter(None, (path, text)))


def _choices(kind: Any, path: str) -> tuple[str, ...]:
    for name in path.split("."):
        hint = get_type_hints(kind)[name]
        kind = next((one for one in get_args(hint) if hasattr(one, "__struct_fields__")), hint)
    return get_args(kind)
