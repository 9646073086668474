"""The table of transitions as a picture and as Markdown, for docs/streams/device_lifecycle.md.

``python -m spark_jobs.device_lifecycle.diagram`` prints the block that belongs between the page's markers.
"""

import sys

from spark_jobs.device_lifecycle.model import ABSENT, FINAL
from spark_jobs.device_lifecycle.transitions import TRANSITIONS, Transition

BEGIN = (
    "<!-- drawn from spark_jobs/device_lifecycle/transitions.py"
    " by python -m spark_jobs.device_lifecycle.diagram -->"
)
END = "<!-- end of the drawn block -->"


def mermaid() -> str:
    """A Mermaid state diagram of all rows that change the mode."""
    lines = ["stateDiagram-v2"]
    for row in TRANSITIONS.values():
        if row.to != row.state:
            lines.append(f"    {_node(row.state)} --> {row.to}: {_label(row)}")
    lines += [f"    {mode} --> [*]" for mode in FINAL]
    return "\n".join(lines)


def markdown() -> str:
    """Every row of the table; ``-`` where the mode stays."""
    lines = ["| mode | trigger | next mode | rows written |", "|---|---|---|---|"]
    for row in TRANSITIONS.values():
        following = "-" if row.to == row.state else row.to
        written = "status" if row.alert is None else f"alert {row.alert}, status"
        lines.append(f"| {row.state} | `{row.trigger}` | {following} | {written} |")
    return "\n".join(lines)


def block() -> str:
    """Picture and table between their markers."""
    return f"{BEGIN}\n\n```mermaid\n{mermaid()}\n```\n\n{markdown()}\n\n{END}"


def _node(mode: str) -> str:
    return "[*]" if mode == ABSENT else mode


def _label(row: Transition) -> str:
    return row.trigger if row.alert is None else f"{row.trigger} / alert {row.alert}"


if __name__ == "__main__":
    sys.stdout.write(block() + "\n")
