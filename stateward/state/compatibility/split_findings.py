"""Whether two streams, as code and YAML declare them, divide the keys that one of them had. Pure."""

from collections.abc import Iterator
from typing import Any

from stateward.state.compatibility.key_findings import named, rules_of

Descriptor = dict[str, Any]

# Else the two would not give together what the one would have given.
_SAME = ("kind", "topics", "clock", "emission", "allowed_lateness_ms", "timeout_jitter_ms", "logic")
_OF_KEYS = ("name", "kind", "version", "rule", "steps")
_OF_STATES = ("version", "schemas", "steps")
_OF_SPARK = ("provider", "encoding", "format")


def split_findings(found: Descriptor, stays: Descriptor, goes: Descriptor) -> Iterator[str]:
    """What stands in the way, in words; nothing if every key is one stream's, and none is both's.

    Args:
        found: Of the checkpoint with all keys.
        stays: Of its stream, as declared now.
        goes: Of the stream that takes the others.
    """
    yield from _rules(found.get("key", {}), stays["key"], goes["key"])
    of, to = (part.get("key", {}).get("version", 1) for part in (found, stays))
    if of >= to:
        yield (
            f"keys of version {to}, as in the checkpoint, where a release from before the split would start "
            f"and take every key: raise key_version to {of + 1} and declare KeyStep({of}, ...), for which "
            "what it says is enough"
        )
    for what in _differences(stays, goes):
        yield f"{what} that is not the same in both: make it so, and change it after the split"
    if both := sorted(stays["outputs"].keys() & goes["outputs"].keys()):
        yield f"{', '.join(both)} as a table of both: give {goes['stream']} tables of its own"


def _rules(found: Descriptor, stays: Descriptor, goes: Descriptor) -> Iterator[str]:
    was, left, right = map(rules_of, (found, stays, goes))
    for name, rules in ((stays, left), (goes, right)):
        if rules[:-1] != was or not rules:
            yield (
                f"{named(name)!r} where the stream had {named(found)!r}: declare `only` with one rule more "
                "than before"
            )
            return
    if left[-1][0] != right[-1][0]:
        yield f"rules that are not the same: {named(stays)!r} and {named(goes)!r}"
    elif left[-1][1] == right[-1][1]:
        yield f"{named(stays)!r} as the keys of both: declare KeyFilter.others() for one of them"


def _differences(stays: Descriptor, goes: Descriptor) -> Iterator[str]:
    for part in _SAME:
        if stays.get(part) != goes.get(part):
            yield part
    for part, names in (("key", _OF_KEYS), ("state", _OF_STATES), ("spark", _OF_SPARK)):
        for name in names:
            if stays.get(part, {}).get(name) != goes.get(part, {}).get(name):
                yield f"{part}.{name}"
