"""The table of transitions as a picture and as Markdown, for docs/streams/fraud_watch.md.

``python -m spark_jobs.fraud_watch.diagram`` prints the block that belongs between the page's markers.
"""

import sys

from spark_jobs.fraud_watch.model import INACTIVE
from spark_jobs.fraud_watch.transitions import TRANSITIONS, Transition

BEGIN = (
    "<!-- drawn from spark_jobs/fraud_watch/transitions.py by python -m spark_jobs.fraud_watch.diagram -->"
)
END = "<!-- end of the drawn block -->"


def mermaid() -> str:
    """A Mermaid state diagram of all rows that change a state or write something."""
    lines = ["stateDiagram-v2"]
    for row in TRANSITIONS.values():
        if row.to != row.state or _written(row):
            lines.append(f"    {_node(row.state)} --> {_node(row.to)}: {_label(row)}")
    return "\n".join(lines)


def markdown() -> str:
    """Every row of the table; ``-`` where nothing changes."""
    lines = ["| state | trigger | next state | row written | velocity window |", "|---|---|---|---|---|"]
    for row in TRANSITIONS.values():
        following = "-" if row.to == row.state else row.to
        window = "cleared" if row.clears_window else ""
        lines.append(f"| {row.state} | `{row.trigger}` | {following} | {_written(row)} | {window} |")
    return "\n".join(lines)


def block() -> str:
    """Picture and table between their markers."""
    return f"{BEGIN}\n\n```mermaid\n{mermaid()}\n```\n\n{markdown()}\n\n{END}"


def _node(state: str) -> str:
    return "[*]" if state == INACTIVE else state


def _written(row: Transition) -> str:
    if row.alert is not None:
        return f"alert {row.alert}"
    return "" if row.summary is None else f"summary {row.summary}"


def _label(row: Transition) -> str:
    written = _written(row)
    return f"{row.trigger} / {written}" if written else row.trigger


if __name__ == "__main__":
    sys.stdout.write(block() + "\n")
