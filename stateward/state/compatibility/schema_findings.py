"""Findings about the versions and shapes of a keyed stream's states. Pure."""

from collections.abc import Iterator
from typing import Any

from stateward.runtime.api.state_step import missing
from stateward.state.compatibility.findings import REVERT, Descriptor, Finding, Level
from stateward.state.compatibility.shape_changes import Change, changes

_PARTS = {"state": "state", "event": "held event"}


def schema_findings(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    """Compare the schemas of all versions in the checkpoint with that of the code."""
    if "state" not in before or "state" not in now:
        return
    schemas = before["state"]["schemas"]
    for version in sorted(map(int, schemas)):
        yield from _version(version, schemas[str(version)], now["state"])


def _version(of: int, shapes: dict[str, Any], now: dict[str, Any]) -> Iterator[Finding]:
    to = now["version"]
    wanted = now["schemas"][str(to)]
    found = {part: list(changes(shapes[part], wanted[part], name)) for part, name in _PARTS.items()}
    if of == to:
        for change in found["state"] + found["event"]:
            yield _finding(
                change, (f"raise STATE_SCHEMA_VERSION to {to + 1} and declare StateStep({to}, ...)",)
            )
        return
    if of > to:
        yield Finding(
            Level.INCOMPATIBLE,
            "the version of the states",
            str(of),
            str(to),
            "a newer release of the stream wrote the states: the fields it added would be lost silently",
            ("start the newer release", "restore a savepoint from before it"),
        )
        return
    gaps = missing(map(int, now["steps"]), of, to)
    if not gaps:
        yield from _stepped(of, found, now)
    elif len(gaps) == to - of and _only_added(found):
        yield _as_they_are(of, to, found)
        yield from (_finding(change, ()) for change in found["state"] + found["event"])
    else:
        yield _without_step(of, to, gaps)
        yield from (_finding(change, ()) for change in found["state"] + found["event"])


def _only_added(found: dict[str, list[Change]]) -> bool:
    """Whether fields have changed, and old texts can be decoded without a step after each change."""
    every = found["state"] + found["event"]
    return bool(every) and all(change.level == Level.EVOLVES for change in every)


def _stepped(of: int, found: dict[str, list[Change]], now: dict[str, Any]) -> Iterator[Finding]:
    to, steps = now["version"], [now["steps"][str(version)] for version in range(of, now["version"])]
    says = "; ".join(step["says"] for step in steps)
    yield Finding(
        Level.EVOLVES,
        "the version of the states",
        str(of),
        str(to),
        f"a bucket's states are upgraded when the bucket is next processed: {says}",
    )
    for part, listed in found.items():
        if any(step[part] for step in steps):
            continue  # a function converts it
        for change in listed:
            # A step without a function accepts silent loss; a change that fails to decode still fails.
            if change.fails:
                ways = (f"give a step from {of} to {to} a function for {_PARTS[part]}s",)
                yield _finding(change, ways)
            else:
                yield _finding(change, ())._replace(level=Level.EVOLVES)


def _as_they_are(of: int, to: int, found: dict[str, list[Change]]) -> Finding:
    consequence = "old states are read unchanged, and rewritten when their bucket is next processed"
    return Finding(Level.EVOLVES, "the version of the states", str(of), str(to), consequence)


def _without_step(of: int, to: int, gaps: list[int]) -> Finding:
    named = ", ".join(f"{version} -> {version + 1}" for version in gaps)
    return Finding(
        Level.NEEDS_MIGRATION,
        "the version of the states",
        str(of),
        str(to),
        f"no step upgrades old states to the new version: missing {named}",
        (
            f"declare StateStep({gaps[0]}, ...) in STATE_STEPS of the stream's model.py",
            "start the release that wrote the states",
        ),
    )


def _finding(change: Change, ways: tuple[str, ...]) -> Finding:
    back = () if change.level == Level.EVOLVES else (REVERT,)
    if change.level == Level.EVOLVES:
        ways = ()
    return Finding(change.level, change.what, change.before, change.now, change.consequence, (*ways, *back))
