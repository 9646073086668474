"""The JSON schema of `include/streams/*.yaml`, by which editors complete and check them.

`python -m stateward.project.spec_schema` writes it again after a change of the model or of a stream's
settings; in the library's own repository also the table of the fields in docs/stream-yaml.md.
"""

import json
from collections.abc import Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from stateward.project.durations import format_duration
from stateward.project.project import Project
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import StreamSpec
from stateward.project.spec_logic import logic_model

SCHEMA_FILE = "stream.schema.json"
PAGE = CHECKOUT / "docs" / "stream-yaml.md"
_HEAD = "| field | default |\n|---|---|\n"


def schema_text(streams: Collection[str] | None = None) -> str:
    """Return the schema as it stands in its file.

    Args:
        streams: Those whose settings it has; all of the project if not given.
    """
    project = Project.of(Settings())
    if streams is None:
        streams = [stream for stream in project.streams() if project.settings(stream)]
    schema = StreamSpec.model_json_schema()
    schema["properties"]["logic"] = {
        "type": "object",
        "description": "settings of the stream's own logic; durations are written as 30m",
        "additionalProperties": {"type": ["string", "integer", "number", "boolean"]},
    }
    schema["$defs"].pop("Logic")
    schema["allOf"] = [
        {
            "if": {"properties": {"stream": {"const": stream}}},
            "then": {"properties": {"logic": logic_model(stream, project.jobs).model_json_schema()}},
        }
        for stream in streams
    ]
    return json.dumps(_readable(schema), indent=2) + "\n"


def page_text() -> str:
    """Return the page of the fields, with the table as the model has it."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(_HEAD)
    schema = json.loads(schema_text([]))
    rows = [f"| `{field}` | {default} |\n" for field, default in _fields(schema, schema["$defs"])]
    return before + _HEAD + "".join(rows)


def _fields(part: Any, parts: Any, at: str = "", given: Any = None) -> Iterator[tuple[str, str]]:
    for name, field in part["properties"].items():
        default = (given or {}).get(name, field.get("default"))
        named = [one["$ref"] for one in (field, *field.get("anyOf", ())) if "$ref" in one]
        if named:
            yield from _fields(parts[named[0].rpartition("/")[2]], parts, f"{at}{name}.", default)
        elif name in part.get("required", ()):
            yield f"{at}{name}", "must be set"
        elif name not in ("logic", "warn", "critical") or default is not None:
            shown = _readable({"default": default})["default"]
            yield f"{at}{name}", f"`{shown if isinstance(shown, str) else json.dumps(shown)}`"


def _readable(value: Any) -> Any:
    """Write defaults such as PT15S, which pydantic uses, as 15s, which the YAML uses."""
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    read = {key: _readable(item) for key, item in value.items()}
    default = read.get("default")
    if isinstance(default, str) and default.startswith("P"):
        read["default"] = format_duration(TypeAdapter(timedelta).validate_python(default))
    return read


if __name__ == "__main__":
    Path(Settings().streams, SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")
    if PAGE.exists():
        PAGE.write_text(page_text(), encoding="utf-8")
