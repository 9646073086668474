"""Findings about the rule that makes a stream's keys. Pure."""

from collections.abc import Iterator
from typing import Any

from stateward.runtime.api.key_step import moves_keys
from stateward.runtime.api.state_step import missing
from stateward.state.compatibility.findings import REVERT, START_OVER, Descriptor, Finding, Level

_ELSEWHERE = "states stay under their old keys, where no event finds them"
_VERSION = "the version of the keys"
_SPLIT = "run `stateward state split`, which gives the others a stream of their own"


def key_findings(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    """Compare the key and the version of its rule; a descriptor without a version has version 1."""
    if "key" not in now:
        return
    old, new = before.get("key", {}), now["key"]
    yield from _taken(old, new)
    of, to = old.get("version", 1), new.get("version", 1)
    if of > to:
        yield Finding(
            Level.INCOMPATIBLE,
            _VERSION,
            str(of),
            str(to),
            f"a newer release of the stream made the keys: {_ELSEWHERE}",
            ("start the newer release", "restore a savepoint from before it"),
        )
    elif of < to:
        yield from _stepped(of, to, new["steps"])
    elif old:
        yield from _same_version(old, new)


def _taken(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Finding]:
    """Compare the key filters."""
    if filter_rules(old) == filter_rules(new):
        return
    fewer = filter_rules(new)[: len(filter_rules(old))] == filter_rules(old)
    consequence = (
        "the states of the other keys would end here, and their events would not be read"
        if fewer
        else "events of keys whose states are not here would be read"
    )
    ways = (_SPLIT, REVERT) if fewer else (REVERT,)
    yield Finding(
        Level.NEEDS_MIGRATION,
        "which keys are the stream's",
        keys_text(old),
        keys_text(new),
        consequence,
        ways,
    )


def filter_rules(key: dict[str, Any]) -> list[tuple[str, bool]]:
    """The filter functions, each with whether the stream takes the rest instead of the named keys."""
    return [(one["names"], one["rest"]) for one in key.get("only", ())]


def keys_text(key: dict[str, Any]) -> str:
    """The key filters as text."""
    return ", ".join(one["says"] for one in key.get("only", ())) or "every key"


def _same_version(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Finding]:
    version = new.get("version", 1)
    if any(old[name] != new[name] for name in ("name", "kind")):
        step = () if "version" not in new else (_raise(version),)
        yield Finding(
            Level.INCOMPATIBLE,
            "the key",
            "{name} ({kind})".format(**old),
            "{name} ({kind})".format(**new),
            f"{_ELSEWHERE}; a StateStep changes a key's state, never the key",
            (REVERT, START_OVER, "give the new key a stream of its own", *step),
        )
    elif old.get("rule") != new.get("rule"):
        yield Finding(
            Level.NEEDS_MIGRATION,
            "the rule of the key",
            old.get("rule") or f"the field {old['name']}",
            new.get("rule") or f"the field {new['name']}",
            f"the rule changed without a new version: {_ELSEWHERE}",
            (_raise(version), REVERT),
        )


def _raise(version: int) -> str:
    return (
        f"raise key_version to {version + 1}, declare KeyStep({version}, ...) and run `stateward state "
        "migrate`"
    )


def _stepped(of: int, to: int, steps: dict[str, Any]) -> Iterator[Finding]:
    if gaps := missing(map(int, steps), of, to):
        named = ", ".join(f"{version} -> {version + 1}" for version in gaps)
        yield Finding(
            Level.NEEDS_MIGRATION,
            _VERSION,
            str(of),
            str(to),
            f"no step converts the old keys: missing {named}",
            (
                f"declare KeyStep({gaps[0]}, ...) in key_steps of the stream's declaration",
                "start the release that made the keys",
            ),
        )
        return
    says = "; ".join(steps[str(version)]["says"] for version in range(of, to))
    if moves_keys(steps, of, to):
        yield Finding(
            Level.NEEDS_MIGRATION,
            _VERSION,
            str(of),
            str(to),
            f"keys change ({says}): {_ELSEWHERE}",
            ("run `stateward state migrate`, which moves every key", "start the release that made the keys"),
        )
    else:
        yield Finding(Level.EVOLVES, _VERSION, str(of), str(to), f"keys stay the same: {says}")
