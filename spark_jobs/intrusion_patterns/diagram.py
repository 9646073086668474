"""The patterns as pictures and as Markdown, for docs/streams/intrusion_patterns.md.

``python -m spark_jobs.intrusion_patterns.diagram`` prints the block that belongs between the page's markers.
"""

import sys

from spark_jobs.intrusion_patterns.model import Pattern
from spark_jobs.intrusion_patterns.patterns import PATTERNS

BEGIN = (
    "<!-- drawn from spark_jobs/intrusion_patterns/patterns.py"
    " by python -m spark_jobs.intrusion_patterns.diagram -->"
)
END = "<!-- end of the drawn block -->"

_UNITS = (("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def mermaid(pattern: Pattern) -> str:
    """A Mermaid diagram of one pattern: a box for each match that is kept, and how each begins and ends."""
    last = len(pattern.steps)
    boxes = ["[*]", *(f"steps_{number}" for number in range(1, last)), "[*]"]
    lines = ["stateDiagram-v2"]
    for number in range(1, last):
        lines.append(f'    state "{", ".join(pattern.steps[:number])}" as {boxes[number]}')
    for number, kind in enumerate(pattern.steps, 1):
        ending = f" / alert {pattern.name}" if number == last else ""
        lines.append(f"    {boxes[number - 1]} --> {boxes[number]}: {kind}{ending}")
    for box in boxes[1:last]:
        lines.append(f"    {box} --> [*]: {span(pattern.horizon_ms)} after its {pattern.steps[0]}")
    return "\n".join(lines)


def markdown(patterns: tuple[Pattern, ...]) -> str:
    """A row for every pattern."""
    lines = ["| pattern | steps, in this order | within | matches kept | remedy |", "|---|---|---|---|---|"]
    for pattern in patterns:
        steps = ", ".join(f"`{kind}`" for kind in pattern.steps)
        kept = len(pattern.steps) - 1
        lines.append(
            f"| `{pattern.name}` | {steps} | {span(pattern.horizon_ms)} | {kept} | {pattern.remedy} |"
        )
    return "\n".join(lines)


def block(patterns: tuple[Pattern, ...] = PATTERNS) -> str:
    """Table and pictures between their markers."""
    pictures = "".join(f"```mermaid\n{mermaid(pattern)}\n```\n\n" for pattern in patterns)
    return f"{BEGIN}\n\n{markdown(patterns)}\n\n{pictures}{END}"


def span(duration_ms: int) -> str:
    """A duration in the largest unit of which it is a whole number."""
    name, unit_ms = next(unit for unit in _UNITS if duration_ms % unit[1] == 0)
    return f"{duration_ms // unit_ms} {name}"


if __name__ == "__main__":
    sys.stdout.write(block() + "\n")
