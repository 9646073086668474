"""The fields of a stream's YAML, from the schema that checks it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stateward.project.spec_schema import schema_text

HEAD = "| field | type | default | meaning |\n|---|---|---|---|\n"
# Each on a page of its own: the streams', and docs/health.md.
ELSEWHERE = {"logic", "health.limits"}


@dataclass(frozen=True)
class Field:
    """One field: its place in the YAML, and what the schema has of it."""

    path: str
    kind: str
    default: str
    meaning: str

    def row(self) -> str:
        """Its line of the table."""
        return f"| `{self.path}` | {self.kind} | {self.default} | {self.meaning} |\n"


def fields() -> str:
    """A table of the fields of the top level, and one for each section."""
    schema = json.loads(schema_text([]))
    parts = schema["$defs"]
    found = list(_fields(schema, parts))
    text = HEAD + "".join(field.row() for field in found if "." not in field.path)
    for section, field in schema["properties"].items():
        rows = "".join(one.row() for one in found if one.path.startswith(f"{section}."))
        if rows:
            part = _part(field, parts)
            about = part["description"] if part else f"{_capital(field['description'])}."
            text += f"\n## {section}\n\n{_linked(about)}{_optional(field)}\n\n{HEAD}{rows}"
    return text


def _optional(field: Any) -> str:
    none = "anyOf" in field and field.get("default") is None
    return " There is no such section by default." if none else ""


def _fields(part: Any, parts: Any, at: str = "", given: Any = None) -> Iterator[Field]:
    for name, field in part["properties"].items():
        path = f"{at}{name}"
        default = (given or {}).get(name, field.get("default"))
        named = _part(field, parts)
        if path in ELSEWHERE:
            continue
        if named is not None:
            yield from _fields(named, parts, f"{path}.", default)
        elif entries := _entries(field, parts):
            yield from _fields(entries, parts, f"{path}.<name>.")
        else:
            required = name in part.get("required", ())
            shown = "must be set" if required else f"`{_shown(default)}`"
            yield Field(path, kind_of(field), shown, _linked(field["description"]))


def _part(field: Any, parts: Any) -> Any:
    """The section that a field is; None if it is a value."""
    named = [one["$ref"] for one in (field, *field.get("anyOf", ())) if "$ref" in one]
    return parts[named[0].rpartition("/")[2]] if named else None


def _entries(field: Any, parts: Any) -> Any:
    """The section that each entry of a mapping is; None if its entries are values."""
    entries = list(field.get("patternProperties", {}).values())
    return _part(entries[0], parts) if entries else None


def kind_of(field: Any) -> str:
    """What a value may be, for a person."""
    match field:
        case {"anyOf": [value, {"type": "null"}]}:
            return f"{kind_of(value)}, or null"
        case {"$comment": kind}:
            return str(kind)
        case {"enum": values}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": "integer"}:
            return f"whole number{_bounds(field)}"
        case {"type": "string"}:
            return "text"
    return _collection(field)


def _bounds(field: Any) -> str:
    match field:
        case {"minimum": low, "maximum": high}:
            return f", {low} to {high}"
        case {"minimum": low}:
            return f" from {low}"
        case {"exclusiveMinimum": low}:
            return f" above {low}"
    return ""


def _collection(field: Any) -> str:
    match field:
        case {"type": "array", "items": items}:
            return f"list: {kind_of(items)}"
        case {"patternProperties": entries}:
            return f"mapping: {kind_of(next(iter(entries.values())))}"
        case {"additionalProperties": entries}:
            return f"mapping: {kind_of(entries)}"
    raise ValueError(f"expected a field whose type has words here, found {field}")


def _shown(default: Any) -> str:
    return default if isinstance(default, str) else json.dumps(default)


def _linked(text: str) -> str:
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
