"""A stream's rules as a picture and as Markdown, for its page in docs. Pure.

``python -m stateward.runtime.api.diagram spark_jobs.<stream>.<module>`` prints the block that belongs between
the markers of the page: what the function ``drawn`` of the module returns.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

OUTSIDE = "[*]"
"""Where a picture begins and ends."""


class Edge(NamedTuple):
    """An arrow from one state to another; without a label it only ends the picture."""

    state: str
    to: str
    label: str = ""


def picture(edges: Iterable[Edge], titles: Mapping[str, str] | None = None) -> str:
    """A Mermaid state diagram.

    Args:
        edges: Its arrows, in order.
        titles: What boxes show that have another text than their name.
    """
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{title}" as {name}' for name, title in (titles or {}).items()]
    lines += [f"    {one.state} --> {one.to}" + (f": {one.label}" if one.label else "") for one in edges]
    return "\n".join(["```mermaid", *lines, "```"])


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(map(str, line))} |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def block(module: str, *parts: str) -> str:
    """Pictures and tables between the markers of a page; ``module`` is the ``__name__`` of what they show."""
    command = f"python -m stateward.runtime.api.diagram {module}"
    begin = f"<!-- drawn from {module.replace('.', '/')}.py by {command} -->"
    return "\n\n".join([begin, *parts, "<!-- end of the drawn block -->"])


if __name__ == "__main__":
    sys.stdout.write(importlib.import_module(sys.argv[1]).drawn() + "\n")
