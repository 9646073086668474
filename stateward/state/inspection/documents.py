"""The results of ``inspect`` and ``explain`` as JSON objects, with everything their pages show. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stateward.state.verbs.explain import Explanation
    from stateward.state.verbs.inspect import Inspection

VERSION = 1


def inspection_document(found: Inspection) -> dict[str, Any]:
    """The inspection; times in milliseconds since 1970 UTC, sizes in bytes."""
    document = {"version": VERSION, "verb": "inspect", **asdict(found)}
    del document["times"]
    size = found.size
    document["size"] |= {
        "live_bytes": size.live_bytes,
        "mean_key_bytes": size.mean_key_bytes,
        "mean_value_bytes": size.mean_value_bytes,
        "store_factor": size.store_factor,
        "file_factor": size.file_factor,
        "versioning": size.versioning,
    }
    return document


def explanation_document(found: Explanation) -> dict[str, Any]:
    """The explanation; times in milliseconds since 1970 UTC."""
    return {"version": VERSION, "verb": "explain", **asdict(found)}
