"""Which settings of a launch another one has otherwise. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# They name the launch and not what it does.
_OF_THE_LAUNCH = ("run_id", "version")
_ABSENT = "not there"


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Compare two resolved configurations.

    Args:
        before: That of the newest launch; empty if there was none.
        now: As one would be launched now.

    Returns:
        For each setting that differs its name, dotted, and both values as JSON; nothing without a launch.
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
