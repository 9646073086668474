"""Settings that differ between two launches. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# They identify the launch; they do not configure it.
_OF_THE_LAUNCH = ("run_id", "version")
_ABSENT = "not there"


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Compare two resolved configurations.

    Args:
        before: Configuration of the last launch; empty if there was none.
        now: Configuration of a launch now.

    Returns:
        The dotted name and both values, as JSON, of each setting that differs; empty without a launch.
    """
    if not before:
        return []
    olds, news = (dict(_flat(document)) for document in (before, now))
    names = sorted(olds.keys() | news.keys())
    pairs = ((name, olds.get(name, _ABSENT), news.get(name, _ABSENT)) for name in names)
    return [
        (name, was, is_)
        for name, was, is_ in pairs
        if was != is_ and name.split(".")[0] not in _OF_THE_LAUNCH
    ]


def _flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in document.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", json.dumps(value)))
    return found
