"""What a checkpoint knows of a batch that was planned and not committed (`state.replan`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint

ATTEMPTS = "stateward/attempts.json"
"""File in which a checkpoint keeps its `Attempts`."""
# Beyond any number of records.
_DOUBLED = 40


@dataclass(frozen=True)
class Attempts:
    """What is known of it.

    Attributes:
        batch: Its number.
        begun: How many drivers have begun it again.
        records: How many records it may have if it is planned again.
    """

    batch: int
    begun: int
    records: int


def noted(checkpoint_uri: str) -> Attempts | None:
    """What was noted last; None before the first time."""
    found = storage.read_json(f"{checkpoint_uri}/{ATTEMPTS}")
    return Attempts(**found) if found else None


def note(checkpoint_uri: str, attempts: Attempts) -> None:
    """Keep it in place of what was noted before."""
    storage.write_json(f"{checkpoint_uri}/{ATTEMPTS}", asdict(attempts))


def records_of_next(checkpoint_uri: str, most: int) -> int:
    """How many records the next batch may have: few after a batch that was too large, then more and more."""
    attempts = noted(checkpoint_uri)
    if attempts is None or attempts.records >= most:
        return most
    committed = Checkpoint(checkpoint_uri).last_committed() + 1 - attempts.batch
    return int(min(most, attempts.records * 2 ** min(max(committed, 0), _DOUBLED)))
