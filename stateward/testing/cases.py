"""A stream with short durations, so that few events meet every timeout, and events for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec.structs import replace

from stateward.project.project import Project
from stateward.runtime.api.any_job import configured
from stateward.runtime.api.key_logic import KeyLogic
from stateward.runtime.api.stream_job import StreamJob
from stateward.testing.declarations import config_of

Arrival = tuple[str, Any]
"""A key and one of its events."""

LATENESS = 100
"""The allowed lateness of a case (ms)."""

_LONGEST_MS = 1500
_LATEST_MS = 5000


@dataclass(frozen=True)
class Case:
    """A stream, its logic with short durations, and what its events may say beside id and time."""

    job: StreamJob
    logic: KeyLogic[Any, Any]
    event: Callable[..., Any]
    values: tuple[st.SearchStrategy[Any], ...]


def case_of(stream: str, **values: st.SearchStrategy[Any]) -> Case:
    """The case of a stream of the project, from its YAML and the types of its events.

    Args:
        stream: The stream.
        values: By field of the event its values, where those of its type say too little: a `kind` that the
            logic knows, for example. Those of a required field with `one_of` are known.

    Raises:
        TypeError: The stream is not one of keyed logic, or a field has a type without values.
        ValueError: The event has no such field.
    """
    job, config = Project.imported().declaration(stream), config_of(stream)
    if not isinstance(job, StreamJob):
        raise TypeError(
            f"stream {stream}: expected a StreamJob, found a {type(job).__name__}. Only a stream of keyed"
            " logic has events that are folded one by one; compare the operators of another with its oracle."
        )
    hints = dict(list(get_type_hints(job.event_type).items())[2:])
    if unknown := sorted(values.keys() - hints.keys()):
        raise ValueError(
            f"stream {stream}: expected values for some of {', '.join(hints) or 'no field'}, found"
            f" {', '.join(unknown)}. Name fields of {job.event_type.__name__}."
        )
    closed = {
        one.name: st.sampled_from(one.one_of)
        for fields in job.fields_of(config).values()
        for one in fields
        if one.required and one.one_of
    }
    known = {**closed, **values}
    strategies = tuple(
        known[name] if name in known else _values(stream, name, kind) for name, kind in hints.items()
    )
    short = replace(config, logic=scaled_down(dict(config.logic)))
    return Case(configured(job, config), job.logic(short), job.event_type, strategies)


def scaled_down(logic: dict[str, Any]) -> dict[str, Any]:
    """Settings with their durations in proportion, the longest of them a second and a half."""
    longest_ms = max((value for name, value in logic.items() if name.endswith("_ms")), default=1)
    return {
        name: max(1, value * _LONGEST_MS // longest_ms) if name.endswith("_ms") else value
        for name, value in logic.items()
    }


def _values(stream: str, name: str, kind: Any) -> st.SearchStrategy[Any]:
    if get_origin(kind) in (UnionType, Union):
        return st.one_of([_values(stream, name, one) for one in get_args(kind)])
    known: dict[Any, st.SearchStrategy[Any]] = {
        str: st.sampled_from("xyz"),
        bool: st.booleans(),
        int: st.integers(0, 30),
        float: st.integers(0, 30).map(float),
        NoneType: st.none(),
    }
    if kind not in known:
        raise TypeError(
            f"stream {stream}, field {name} of its events: expected a text, flag, int or float, found {kind}."
            f" Give its values: {name}=st.…"
        )
    return known[kind]


def arrivals(case: Case) -> st.SearchStrategy[list[Arrival]]:
    """Events of a few keys, in no order of time."""
    event = st.builds(case.event, st.uuids().map(str), st.integers(0, _LATEST_MS), *case.values)
    return st.lists(st.tuples(st.sampled_from("abcdef"), event), min_size=1, max_size=30)


def out_of_order(events: list[Arrival], data: st.DataObject, lateness: int) -> list[Arrival]:
    """As they arrive within the allowed lateness: by event time plus a delay of at most the lateness."""
    delays = [data.draw(st.integers(0, lateness)) for _ in events]
    return [e for _, e in sorted(zip(delays, events, strict=True), key=lambda p: p[0] + p[1][1].event_ms)]
