"""The patterns that are looked for, as data. Pure.

Another pattern is another entry: it is followed beside the others from the next start on, and
docs/streams/intrusion_patterns.md is drawn from it. A pattern whose steps change gets a new name, so that
what was found of the old one is not taken for steps of the new one.
"""

from spark_jobs.intrusion_patterns.model import Pattern
from stateward.contract.stream_settings import HOUR, MINUTE, SECOND
from stateward.runtime.api.diagram import OUTSIDE, Edge, block, picture, table

_UNITS = (("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", 1))

PATTERNS = (
    Pattern(
        "recon_to_escalation",
        steps=("recon_scan", "auth_failure", "privilege_escalation"),
        horizon_ms=20 * MINUTE,
        remedy="Isolate the host whose privileges were raised, then block the source.",
    ),
)


def drawn(patterns: tuple[Pattern, ...] = PATTERNS) -> str:
    """The patterns as docs/streams/intrusion_patterns.md shows them."""
    head = ("pattern", "steps, in this order", "within", "matches kept", "remedy")
    rows = [
        (
            f"`{pattern.name}`",
            ", ".join(f"`{kind}`" for kind in pattern.steps),
            span(pattern.horizon_ms),
            len(pattern.steps) - 1,
            pattern.remedy,
        )
        for pattern in patterns
    ]
    return block("spark_jobs.intrusion_patterns.patterns", table(head, rows), *map(picture_of, patterns))


def picture_of(pattern: Pattern) -> str:
    """One pattern: a box for each match that is kept, and how each begins and ends."""
    last = len(pattern.steps)
    boxes = [OUTSIDE, *(f"steps_{number}" for number in range(1, last)), OUTSIDE]
    labels = (*pattern.steps[:-1], f"{pattern.steps[-1]} / alert {pattern.name}")
    edges = [Edge(boxes[number], boxes[number + 1], label) for number, label in enumerate(labels)]
    ends = f"{span(pattern.horizon_ms)} after its {pattern.steps[0]}"
    edges += [Edge(box, OUTSIDE, ends) for box in boxes[1:last]]
    return picture(edges, {boxes[number]: ", ".join(pattern.steps[:number]) for number in range(1, last)})


def span(duration_ms: int) -> str:
    """A duration in the largest unit of which it is a whole number."""
    name, unit_ms = next(unit for unit in _UNITS if duration_ms % unit[1] == 0)
    return f"{duration_ms // unit_ms} {name}"
