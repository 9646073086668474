"""Findings about how the state is stored: partitions, buckets, provider, variables. Pure."""

from collections.abc import Iterator
from typing import Any

from stateward.state.compatibility.findings import REVERT, Descriptor, Finding, Level

_MOVE = "move the state to a new checkpoint generation"
_KEPT = "Spark keeps the checkpoint's and silently ignores the setting"
_STORE = {
    "provider": ("the state store's provider", _KEPT),
    "encoding": ("the state's encoding", _KEPT),
    "format": ("the checkpoint's format", "the state store does not find the files of the other format"),
}


def store_findings(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    """Compare how the state is stored."""
    spark, wanted = before.get("spark", {}), now["spark"]
    yield from _partitions(spark, wanted)
    yield from _buckets(before, now)
    if now["kind"] == "landing":  # has no state
        return
    for name, (what, consequence) in _STORE.items():
        if name in spark and spark[name] != wanted[name]:
            ways = (REVERT, _MOVE)
            values = (str(spark[name]), str(wanted[name]))
            yield Finding(Level.NEEDS_MIGRATION, what, *values, consequence, ways)
    yield from _variables(spark, wanted)


def _partitions(spark: dict[str, Any], wanted: dict[str, Any]) -> Iterator[Finding]:
    if "partitions" in spark and spark["partitions"] != wanted["partitions"]:
        number = wanted["partitions"]
        yield Finding(
            Level.EVOLVES,
            "the number of state partitions",
            str(spark["partitions"]),
            str(number),
            f"the checkpoint keeps its {spark['partitions']} until it is repartitioned",
            (f"`stateward state repartition` to {number}",),
        )


def _buckets(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    if "state" not in before or "state" not in now:
        return
    old, new = before["state"]["buckets"], now["state"]["buckets"]
    if old != new:
        yield Finding(
            Level.NEEDS_MIGRATION,
            "the number of state buckets",
            str(old),
            str(new),
            "keys are looked up in other buckets: their states are not found, start again, and expire twice",
            (f"put state.buckets back to {old}", "run `stateward state migrate`, which moves every key"),
        )


def _variables(spark: dict[str, Any], wanted: dict[str, Any]) -> Iterator[Finding]:
    """Compare state variables and time mode of the operator that runs the keyed logic."""
    if "variables" not in wanted:
        return
    operator = next((one for one in spark.get("operators", []) if "variables" in one), spark)
    mode = operator.get("time_mode")
    if mode not in (None, wanted["time_mode"]):
        consequence = "its timers use the other clock; Spark rejects the start"
        values = (mode, wanted["time_mode"])
        yield Finding(Level.INCOMPATIBLE, "the operator's time mode", *values, consequence, (REVERT,))
    olds, news = operator.get("variables"), wanted["variables"]
    if olds is None:
        return
    for name in sorted(olds.keys() | news.keys()):
        yield from _variable(name, olds.get(name), news.get(name))


def _variable(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[Finding]:
    what = f"the state variable {name}"
    move = _MOVE
    if old is None:
        consequence = "it starts empty"
        yield Finding(Level.EVOLVES, what, "not there", "there", consequence)
    elif new is None:
        consequence = "its values are silently no longer read"
        yield Finding(Level.NEEDS_MIGRATION, what, "there", "not there", consequence, (REVERT, move))
    elif old["type"] != new["type"]:
        consequence = "Spark rejects the start"
        ways = (REVERT, move)
        yield Finding(Level.NEEDS_MIGRATION, what, old["type"], new["type"], consequence, ways)
    elif old["ttl"] != new["ttl"]:
        gone = "its old values are silently read as nulls"
        consequence = "writing its old values fails in the worker" if new["ttl"] else gone
        was, is_ = ("with a time to live" if one["ttl"] else "without one" for one in (old, new))
        yield Finding(Level.NEEDS_MIGRATION, what, was, is_, consequence, (REVERT, move))
    elif old.get("ttl_ms") != new.get("ttl_ms"):
        was, is_ = (f"a time to live of {one.get('ttl_ms')} ms" for one in (old, new))
        yield Finding(Level.EVOLVES, what, was, is_, "applies to each value from its next write")
