"""The JSON schema of `include/streams/*.yaml`, by which editors complete and check them.

`python -m stateward.project.spec_schema` writes it again after a change of the model or of a stream's
settings. The table of the fields in docs/stream-yaml.md is made from it.
"""

import json
import re
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from stateward.project.durations import format_duration
from stateward.project.project import Project
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec
from stateward.project.spec_logic import logic_model

SCHEMA_FILE = "stream.schema.json"
_ISO_DURATION = re.compile(r"^P(\d+D)?(T(\d+H)?(\d+M)?([\d.]+S)?)?$")


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


def _readable(value: Any) -> Any:
    """Write durations such as PT15S, which pydantic uses, as 15s, which the YAML uses."""
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, str) and _ISO_DURATION.match(value):
        return format_duration(TypeAdapter(timedelta).validate_python(value))
    return value


if __name__ == "__main__":
    Path(Settings().streams, SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")
