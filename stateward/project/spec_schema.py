"""The JSON schema of `include/streams/*.yaml`, by which editors complete and check them.

`python -m stateward.project.spec_schema` writes it again after a change of the model.
"""

import json
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from stateward.project.durations import format_duration
from stateward.project.project import Project
from stateward.project.settings import Settings
from stateward.project.spec import STREAMS_FOLDER, StreamSpec
from stateward.project.spec_logic import logic_model

SCHEMA_FILE = STREAMS_FOLDER / "stream.schema.json"


def schema_text() -> str:
    """Return the schema as it stands in its file."""
    project = Project.of(Settings())
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
        for stream in project.streams()
        if project.settings(stream)
    ]
    return json.dumps(_readable(schema), indent=2) + "\n"


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
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
