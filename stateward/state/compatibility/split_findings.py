"""Checks that two streams, as declared in code and YAML, divide the keys of one. Pure."""

from collections.abc import Iterator

from stateward.state.compatibility.findings import Descriptor
from stateward.state.compatibility.key_findings import filter_rules, keys_text

# Must be equal, or the two streams together would not produce the rows of the one.
_SAME = ("kind", "topics", "clock", "emission", "allowed_lateness_ms", "timeout_jitter_ms", "logic")
_OF_KEYS = ("name", "kind", "version", "rule", "steps")
_OF_STATES = ("version", "schemas", "steps")
_OF_SPARK = ("provider", "encoding", "format")


def split_findings(found: Descriptor, stays: Descriptor, goes: Descriptor) -> Iterator[str]:
    """The obstacles to the split; none if each key has exactly one stream.

    Args:
        found: Descriptor of the checkpoint with all keys.
        stays: Descriptor of its stream, as declared now.
        goes: Descriptor of the stream that takes the other keys.
    """
    yield from _rules(found.get("key", {}), stays["key"], goes["key"])
    of, to = (part.get("key", {}).get("version", 1) for part in (found, stays))
    if of >= to:
        yield (
            f"keys of version {to}, as in the checkpoint, with which a release from before the split would "
            f"start and take every key: raise key_version to {of + 1} and declare KeyStep({of}, ...); a "
            "description is enough for it"
        )
    for what in _differences(stays, goes):
        yield f"{what} that differs between both: make it equal, and change it after the split"
    if both := sorted(stays["outputs"].keys() & goes["outputs"].keys()):
        yield f"{', '.join(both)} as a table of both: give {goes['stream']} its own tables"


def _rules(found: Descriptor, stays: Descriptor, goes: Descriptor) -> Iterator[str]:
    was, left, right = map(filter_rules, (found, stays, goes))
    for name, rules in ((stays, left), (goes, right)):
        if rules[:-1] != was or not rules:
            yield (
                f"{keys_text(name)!r} where the stream had {keys_text(found)!r}: add one rule to the "
                "previous `only`"
            )
            return
    if left[-1][0] != right[-1][0]:
        yield f"different rules: {keys_text(stays)!r} and {keys_text(goes)!r}"
    elif left[-1][1] == right[-1][1]:
        yield f"{keys_text(stays)!r} as the keys of both: declare KeyFilter.others() for one of them"


def _differences(stays: Descriptor, goes: Descriptor) -> Iterator[str]:
    for part in _SAME:
        if stays.get(part) != goes.get(part):
            yield part
    for part, names in (("key", _OF_KEYS), ("state", _OF_STATES), ("spark", _OF_SPARK)):
        for name in names:
            if stays.get(part, {}).get(name) != goes.get(part, {}).get(name):
                yield f"{part}.{name}"
