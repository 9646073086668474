"""Pairs of what a checkpoint holds and what code and YAML declare, each with its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from spark_jobs.device_lifecycle.model import DeviceState
from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.key_step import KeyStep
from stateward.runtime.api.record_fields import Field
from stateward.runtime.api.state_step import StateStep
from stateward.state.compatibility.findings import Descriptor, Level
from stateward.state.compatibility.source_text import function_text

SAME, EVOLVES, MIGRATE, NEVER = Level


def without(kind: Any, gone: str) -> Any:
    """The named tuple without a field."""
    fields = {name: part for name, part in kind.__annotations__.items() if name != gone}
    return made(fields, {name: part for name, part in kind._field_defaults.items() if name != gone})


def made(fields: dict[str, Any], defaults: dict[str, Any]) -> Any:
    kind: Any = NamedTuple("State", list(fields.items()))  # type: ignore[misc]  # mypy expects a literal
    kind._field_defaults = defaults
    return kind


def changed(gone: str, come: str, kind: Any, *default: Any) -> Any:
    """The state with a field in place of another, or one more."""
    base = without(DeviceState, gone)
    return made(
        {**base.__annotations__, come: kind},
        {**base._field_defaults, **({come: default[0]} if default else {})},
    )


ADDED = changed("", "room", str, "hall")
RENAMED = changed("runtime_ms", "running_ms", int, 0)
REMOVED = without(DeviceState, "runtime_ms")
RETYPED = changed("mode", "mode", int)
WIDENED = changed("runtime_ms", "runtime_ms", float, 0)
DEFAULT = changed("error_count", "error_count", int, 5)
STEP = StateStep(1, "runtime_ms is called running_ms", state=lambda key, state: state)


KEY_STEP = KeyStep(1, "a key says what it is", key=lambda key: f"device-{key}")
NO_KEY_STEP = KeyStep(1, "the field has another name, and the same texts")
KEYS = "the version of the keys"
TAKEN = "which keys are the stream's"
NO_MOVE = {"key_version": 2, "key_steps": (NO_KEY_STEP,)}


def _even(key: str) -> bool:
    return int(key) % 2 == 0


EVEN = KeyFilter("even devices", _even)
SAID_OTHERWISE = KeyFilter("every other device", _even)


def _serial(record: Any) -> str:
    return f"device-{record.device_id}"


class Pair(NamedTuple):
    """One pair: changes to the declaration, to the configuration, and to the descriptors themselves."""

    name: str
    level: Level
    what: str
    job: Mapping[str, Any] = MappingProxyType({})
    config: Mapping[str, Any] = MappingProxyType({})
    stream: str = "device_lifecycle"
    before: Callable[[Descriptor], Any] = lambda descriptor: None
    now: Callable[[Descriptor], Any] = lambda descriptor: None


def put(*path: str, value: Any) -> Callable[[Descriptor], Any]:
    """A change to a descriptor."""

    def change(descriptor: Descriptor) -> None:
        for part in path[:-1]:
            descriptor = descriptor[part]
        descriptor[path[-1]] = value

    return change


def drop(*path: str) -> Callable[[Descriptor], Any]:
    def change(descriptor: Descriptor) -> None:
        for part in path[:-1]:
            descriptor = descriptor[part]
        del descriptor[path[-1]]

    return change


def halved(rule: KeyFilter) -> Callable[[Descriptor], Any]:
    """A checkpoint of a stream that has some of the keys."""
    described = {"says": str(rule), "names": function_text(rule.names), "rest": rule.rest}
    return put("key", "only", value=[described])


TTL = ("spark", "variables", "log", "ttl")
SLIDING = "event_windows_sliding"
PAIRS = [
    Pair("nothing", SAME, ""),
    Pair("field added", EVOLVES, "state.room is new", {"state_type": ADDED}),
    Pair("field renamed", MIGRATE, "state.runtime_ms looks renamed to running_ms", {"state_type": RENAMED}),
    Pair("field removed", MIGRATE, "state.runtime_ms is gone", {"state_type": REMOVED}),
    Pair("field retyped", MIGRATE, "state.mode has another type", {"state_type": RETYPED}),
    Pair("field widened", EVOLVES, "state.runtime_ms has another type", {"state_type": WIDENED}),
    Pair("default changed", EVOLVES, "state.error_count has another default", {"state_type": DEFAULT}),
    Pair(
        "renamed with its step",
        EVOLVES,
        "the version of the states",
        {"state_type": RENAMED, "state_version": 2, "state_steps": (STEP,)},
    ),
    Pair(
        "renamed without its step",
        MIGRATE,
        "the version of the states",
        {"state_type": RENAMED, "state_version": 2},
    ),
    Pair(
        "one step of two",
        MIGRATE,
        "the version of the states",
        {"state_type": RENAMED, "state_version": 3, "state_steps": (STEP,)},
    ),
    Pair(
        "version raised for an added field",
        EVOLVES,
        "the version of the states",
        {"state_type": ADDED, "state_version": 2},
    ),
    Pair("version raised for no field", MIGRATE, "the version of the states", {"state_version": 2}),
    Pair(
        "version set back", NEVER, "the version of the states", before=lambda d: d["state"].update(_second(d))
    ),
    Pair("key renamed", NEVER, "the key", {"key": Field("serial", "text")}),
    Pair("key retyped", NEVER, "the key", {"key": Field("device_id", "number")}),
    Pair("key retyped by a step", MIGRATE, KEYS, {"key_version": 2, "key_steps": (KEY_STEP,)}),
    Pair("key retyped without its step", MIGRATE, KEYS, {"key_version": 2}),
    Pair("keys stay by a step", EVOLVES, KEYS, {"key_version": 2, "key_steps": (NO_KEY_STEP,)}),
    Pair("key by another rule", MIGRATE, "the rule of the key", {"key_of": _serial}),
    Pair("keys for another stream", MIGRATE, TAKEN, {"only": (EVEN,), **NO_MOVE}),
    Pair("keys for another stream, no version", MIGRATE, TAKEN, {"only": (EVEN,)}),
    Pair("all keys again", MIGRATE, TAKEN, before=halved(EVEN)),
    Pair("the other half", MIGRATE, TAKEN, {"only": (EVEN,)}, before=halved(EVEN.others())),
    Pair("the same half", SAME, "", {"only": (EVEN,)}, before=halved(EVEN)),
    Pair("the same half, said otherwise", SAME, "", {"only": (EVEN,)}, before=halved(SAID_OTHERWISE)),
    Pair("key set back", NEVER, KEYS, before=put("key", "version", value=2)),
    Pair("key not described", SAME, "", before=drop("key", "version")),
    Pair("buckets", MIGRATE, "the number of state buckets", config={"state_buckets": 32}),
    Pair("partitions", EVOLVES, "the number of state partitions", config={"state_partitions": 8}),
    Pair("clock", NEVER, "the clock", config={"clock": "processing"}),
    Pair("emission", EVOLVES, "the emission", config={"emission": "eager"}),
    Pair("topic", NEVER, "the source topics", config={"topic": "readings"}),
    Pair("lateness", EVOLVES, "the allowed lateness", config={"allowed_lateness_ms": 1000}),
    Pair(
        "timeout",
        EVOLVES,
        "the setting logic.offline_after_ms",
        config={
            "logic": {"offline_after_ms": 1, "forget_after_ms": 2_592_000_000, "max_held_events": 10_000}
        },
    ),
    Pair(
        "table removed",
        MIGRATE,
        "the output table device_alerts",
        now=drop("outputs", "device_alerts"),
    ),
    Pair(
        "column retyped",
        MIGRATE,
        "the column device_alerts.silence_ms",
        now=put("outputs", "device_alerts", "columns", "silence_ms", value="double"),
    ),
    Pair(
        "column added",
        EVOLVES,
        "the column device_alerts.room",
        now=put("outputs", "device_alerts", "columns", "room", value="string"),
    ),
    Pair("TTL removed", MIGRATE, "the state variable log", before=put(*TTL, value=True)),
    Pair("TTL added", MIGRATE, "the state variable log", now=put(*TTL, value=True)),
    Pair(
        "TTL changed",
        EVOLVES,
        "the state variable log",
        before=put(*TTL[:-1], "ttl_ms", value=1000),
        now=put(*TTL[:-1], "ttl_ms", value=2000),
    ),
    Pair("variable gone", MIGRATE, "the state variable log", now=drop(*TTL[:-1])),
    Pair(
        "provider",
        MIGRATE,
        "the state store's provider",
        config={"spark_conf": {"spark.sql.streaming.stateStore.providerClass": "an.other.Provider"}},
    ),
    Pair(
        "encoding",
        MIGRATE,
        "the state's encoding",
        config={"spark_conf": {"spark.sql.streaming.stateStore.encodingFormat": "unsaferow"}},
    ),
    Pair(
        "checkpoint format",
        MIGRATE,
        "the checkpoint's format",
        config={"spark_conf": {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}},
    ),
    Pair(
        "time mode",
        NEVER,
        "the operator's time mode",
        before=put("spark", "time_mode", value="ProcessingTime"),
    ),
    Pair("another stream", NEVER, "the stream", before=put("stream", value="sensors")),
    Pair("another kind", NEVER, "the kind of the stream", before=put("kind", value="native")),
    Pair("a newer release", NEVER, "the checkpoint's descriptor", before=put("format", value=99)),
    Pair("native: nothing", SAME, "", stream="event_windows"),
    Pair(
        "native: window",
        NEVER,
        "the setting logic.size_ms of the plan",
        config={"logic": {"size_ms": 1, "slide_ms": 60_000}},
        stream="event_windows",
    ),
    Pair(
        "native: operators",
        NEVER,
        "the plan's operators",
        now=lambda d: d["operators"].pop(),
        stream="event_windows",
    ),
    Pair(
        "native: partitions",
        EVOLVES,
        "the number of state partitions",
        config={"state_partitions": 3},
        stream="event_windows",
    ),
    Pair("landing: nothing", SAME, "", stream="raw_events"),
    Pair(
        "landing: topic added",
        EVOLVES,
        "the source topics",
        stream="raw_events",
        before=lambda d: d["topics"].pop(),
    ),
    Pair(
        "landing: topic removed",
        NEVER,
        "the source topics",
        stream="raw_events",
        now=lambda d: d["topics"].pop(),
    ),
]


def _second(descriptor: Descriptor) -> dict[str, Any]:
    """Its state when a release with version 2 has run on it."""
    schemas = descriptor["state"]["schemas"]
    return {"version": 2, "schemas": {**schemas, "2": schemas["1"]}}
