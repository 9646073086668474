"""A YAML of the stream `small` with what has no default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from stateward.project.spec import StreamSpec, load_spec

SMALL = {
    "stream": "small",
    "description": "Small.",
    "owner": "me",
    "source": {"topic": "t"},
    "event_time": {"allowed_lateness": "0s"},
    "tables": ["rows"],
}


def small_spec(folder: Path, jobs: Path | None = None, **sections: Any) -> StreamSpec:
    """Write the YAML with further sections into a folder, and load it.

    Raises:
        SpecError: It is not valid.
    """
    (folder / "small.yaml").write_text(yaml.safe_dump({**SMALL, **sections}))
    return load_spec("small", folder, jobs)
