"""A link of a page to another one. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """Where to read on. `outer` is a page of Airflow's own, which must not open inside of this one."""

    text: str
    href: str
    note: str = ""
    outer: bool = False
