"""What a driver says of the cause of its end, and what a person does about one that lasts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_REMEDIES = {
    "state": "take one of the ways out that it names (docs/state-compatibility.md)",
    "operation": "run the command that it names",
    "configuration": "correct the stream's YAML, or start drivers of the same release",
    "schema": "compare the table with the stream's declaration, and correct the one that is wrong",
    "topic": "create the topic, or correct its name in the stream's YAML",
    "data_loss": "restore the records, or run the verb skip of state_operations, which goes on after them",
}


@dataclass(frozen=True)
class Cause:
    """See `cause` in the status document.

    Attributes:
        kind: What it is about; kinds that are not known here come from a newer driver.
        lasting: Whether it is there until a person has done something.
    """

    kind: str
    lasting: bool


def remedy(stream: str, cause: Cause) -> str:
    """Say what to do about a cause that no restart cures."""
    first = _REMEDIES.get(cause.kind, "mend the cause")
    return f"A restart does not cure that: {first}, then trigger stream_{stream} with the action run."
