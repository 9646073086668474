"""How a state or event of an older shape decodes. Pure.

tests/unit/state/compatibility/test_shape_*.py decode old texts with new types for each kind of change, so
they verify these statements about `runtime.keyed.codec`.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from stateward.state.compatibility.findings import Level

Shape = Any
Field = dict[str, Any]

_MIGRATE = Level.NEEDS_MIGRATION
_EVOLVES = Level.EVOLVES

_FAILS = "old texts cannot be decoded: the first batch that reads one fails, and nothing is written"
_LOST = "the old value is silently ignored, and lost with the key's next write"


class Change(NamedTuple):
    """One difference between two shapes.

    Attributes:
        level: Compatibility of old texts, if no step converts them.
        what: The path, and what differs.
        before: The old text's value or type.
        now: The new type's.
        consequence: What decoding does.
        fails: Whether decoding fails, instead of losing data silently.
    """

    level: Level
    what: str
    before: str
    now: str
    consequence: str
    fails: bool = False


def changes(before: Shape, now: Shape, path: str) -> Iterator[Change]:
    """The differences between the shape that was written and the one that is read.

    Args:
        before: The shape of old texts (`shape`).
        now: The shape that they are decoded as.
        path: Name of the value, such as ``state``.
    """
    if _same(before, now):
        return
    family = family_of(now)
    if family is None or family != family_of(before):
        yield from _retyped(before, now, path)
    elif family == "by name":
        yield from _by_name(before["fields"], now["fields"], path)
    elif family == "by position":
        yield from _by_position(before["fields"], now["fields"], path)
    elif family in ("array", "set"):
        yield from changes(before[family], now[family], f"{path}[]")
    elif len(before[family]) != len(now[family]):
        yield Change(
            _MIGRATE, f"{path} has another length", shape_text(before), shape_text(now), _FAILS, fails=True
        )
    else:
        for at, (old, new) in enumerate(zip(before[family], now[family], strict=True)):
            yield from changes(old, new, f"{path}[{'key' if family == 'map' and at == 0 else at}]")


def family_of(shape: Shape) -> str | None:
    """How a shape is composed: ``by name``, ``by position``, ``array``, ``set``, ``map``, ``tuple``."""
    if not isinstance(shape, dict):
        return None
    if "fields" in shape:
        return f"by {shape['by']}"
    return next((name for name in ("array", "set", "map", "tuple") if name in shape), None)


def members(shape: Shape) -> list[Shape]:
    """The alternatives that a shape allows."""
    return list(shape["any_of"]) if isinstance(shape, dict) and "any_of" in shape else [shape]


def _same(before: Shape, now: Shape) -> bool:
    return bool(_plain(before) == _plain(now))


def _plain(shape: Shape) -> Shape:
    """A shape without the names of its records and without ``absent`` marks."""
    if isinstance(shape, dict):
        return {name: _plain(part) for name, part in shape.items() if name not in ("record", "absent")}
    if isinstance(shape, list):
        return [_plain(part) for part in shape]
    return shape


def _by_name(before: list[Field], now: list[Field], path: str) -> Iterator[Change]:
    olds, news = ({field["name"]: field for field in fields} for fields in (before, now))
    gone = [field for name, field in olds.items() if name not in news]
    come = [field for name, field in news.items() if name not in olds]
    for old in gone:
        twin = next((new for new in come if _same(old["type"], new["type"])), None)
        if twin is None:
            yield Change(_MIGRATE, f"{path}.{old['name']} is gone", shape_text(old["type"]), "nothing", _LOST)
        else:
            come.remove(twin)
            yield _renamed(old, twin, path)
    for new in come:
        yield _added(new, path)
    for name in olds.keys() & news.keys():
        yield from _kept(olds[name], news[name], f"{path}.{name}")


def _renamed(old: Field, new: Field, path: str) -> Change:
    reads = "default" in new
    becomes = f"every old state has {_default(new)} in its place" if reads else _FAILS
    return Change(
        _MIGRATE,
        f"{path}.{old['name']} looks renamed to {new['name']}",
        f"{old['name']}: {shape_text(old['type'])}",
        f"{new['name']}: {shape_text(new['type'])}",
        f"{_LOST}; {becomes}" if reads else becomes,
        fails=not reads,
    )


def _added(new: Field, path: str) -> Change:
    what, kind = f"{path}.{new['name']} is new", shape_text(new["type"])
    if "default" not in new:
        return Change(_MIGRATE, what, "nothing", f"{kind} without a default", _FAILS, fails=True)
    consequence = f"old texts are read with {_default(new)} for it"
    return Change(_EVOLVES, what, "nothing", f"{kind} = {_default(new)}", consequence)


def _kept(old: Field, new: Field, path: str) -> Iterator[Change]:
    """The differences of a field that both have."""
    yield from changes(old["type"], new["type"], path)
    if old.get("default") == new.get("default") and ("default" in old) == ("default" in new):
        return
    what, before, after = f"{path} has another default", _default(old), _default(new)
    if not old.get("absent"):
        consequence = "stored values stay; the new default applies to new states"
        yield Change(_EVOLVES, what, before, after, consequence)
    elif "default" not in new:
        yield Change(_MIGRATE, what, before, after, f"older texts lack it; {_FAILS}", fails=True)
    else:
        consequence = f"an older text lacks it, and silently reads {after} instead of {before}"
        yield Change(_MIGRATE, what, before, after, consequence)


def _by_position(before: list[Field], now: list[Field], path: str) -> Iterator[Change]:
    for at, (old, new) in enumerate(zip(before, now, strict=False)):
        place = f"{path}[{at}]"
        if old["name"] == new["name"]:
            yield from _kept(old, new, f"{path}.{new['name']}")
        elif _same(old["type"], new["type"]):
            yield Change(
                _MIGRATE,
                f"{place} has another name",
                f"{old['name']}: {shape_text(old['type'])}",
                f"{new['name']}: {shape_text(new['type'])}",
                f"it is stored by position: {old['name']} is silently read as {new['name']}",
            )
        else:
            before_, after = (f"{one['name']}: {shape_text(one['type'])}" for one in (old, new))
            fails = any(change.fails for change in changes(old["type"], new["type"], place))
            consequence = _FAILS if fails else f"{old['name']} is silently read as {new['name']}"
            yield Change(_MIGRATE, f"{place} is another field", before_, after, consequence, fails=fails)
    for gone in before[len(now) :]:
        what = f"{path}.{gone['name']} is gone"
        yield Change(_MIGRATE, what, shape_text(gone["type"]), "nothing", _FAILS, fails=True)
    for new in now[len(before) :]:
        yield _added(new, path)


def _retyped(before: Shape, now: Shape, path: str) -> Iterator[Change]:
    what, old, new = f"{path} has another type", shape_text(before), shape_text(now)
    unread, inner = [], []
    for member in members(before):
        if any(_reads(member, other) for other in members(now)):
            continue
        twin = next(
            (other for other in members(now) if family_of(other) == family_of(member) is not None), None
        )
        if twin is None:
            unread.append(member)
        else:
            inner += list(changes(member, twin, path))
    yield from inner
    if unread:
        yield _unread(unread, before, now, path)
    elif not inner or len(members(before)) != len(members(now)):
        consequence = "old values are read as the new type"
        if "int" in members(before) and "int" not in members(now) and "float" in members(now):
            consequence += "; above 2^53 they are rounded"
        yield Change(_EVOLVES, what, old, new, consequence)


def _unread(unread: list[Shape], before: Shape, now: Shape, path: str) -> Change:
    what, old, new = f"{path} has another type", shape_text(before), shape_text(now)
    if all(family_of(one) == "array" for one in unread) and any(
        family_of(one) == "set" for one in members(now)
    ):
        return Change(_MIGRATE, what, old, new, "order and repeated values are silently lost")
    consequence = (
        _FAILS if len(unread) == len(members(before)) else f"where it is {shape_text(unread[0])}, {_FAILS}"
    )
    return Change(_MIGRATE, what, old, new, consequence, fails=True)


def _reads(before: Shape, now: Shape) -> bool:
    """Whether every value of ``before`` is a value of ``now`` with the same meaning."""
    if _same(before, now) or now == "any" or (before == "int" and now == "float"):
        return True
    if not isinstance(before, dict) or not isinstance(now, dict):
        return False
    if "one_of" in before and "one_of" in now:
        return set(map(str, before["one_of"])) <= set(map(str, now["one_of"]))
    if family_of(now) != "array" or family_of(before) not in ("array", "set", "tuple"):
        return False
    inner = before["tuple"] if "tuple" in before else [before.get("array", before.get("set"))]
    return all(_reads(part, now["array"]) for part in inner)


def _default(field: Field) -> str:
    return json.dumps(field["default"], ensure_ascii=False) if "default" in field else "no default"


def shape_text(shape: Shape) -> str:
    """A short text for a shape."""
    if isinstance(shape, str):
        return shape
    (name, part), *_ = ((name, part) for name, part in shape.items() if name not in ("record", "by"))
    if name == "any_of":
        return " or ".join(map(shape_text, part))
    if name == "fields":
        return str(shape["record"])
    if name in ("map", "tuple"):
        return f"{name} of {', '.join(map(shape_text, part))}"
    if name == "one_of":
        return f"one of {', '.join(map(str, part))}"
    return f"{name} of {shape_text(part)}"
