"""A link on a page. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A link. `outer` marks a page of Airflow, which must not open inside this one."""

    text: str
    href: str
    note: str = ""
    outer: bool = False
