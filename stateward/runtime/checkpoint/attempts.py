"""The attempts to run a batch that was planned and not committed (`state.operation.replan`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint

ATTEMPTS = "stateward/attempts.json"
"""File of the `Attempts` in a checkpoint."""
# Doubled more often than this, every number of records exceeds any limit.
_DOUBLED = 40


@dataclass(frozen=True)
class Attempts:
    """The attempts to run a batch.

    Attributes:
        batch: Its number.
        begun: The number of drivers that started with it pending.
        records: The maximum number of records when it is planned again.
    """

    batch: int
    begun: int
    records: int


def noted(checkpoint_uri: str) -> Attempts | None:
    """Read the attempts; None before the first write."""
    found = storage.read_json(f"{checkpoint_uri}/{ATTEMPTS}")
    return Attempts(**found) if found else None


def note(checkpoint_uri: str, attempts: Attempts) -> None:
    """Replace the stored attempts."""
    storage.write_json(f"{checkpoint_uri}/{ATTEMPTS}", asdict(attempts))


def records_of_next(checkpoint_uri: str, most: int) -> int:
    """The maximum number of records of the next batch: few after one that was too large, then doubled."""
    attempts = noted(checkpoint_uri)
    if attempts is None or attempts.records >= most:
        return most
    committed = Checkpoint(checkpoint_uri).last_committed() + 1 - attempts.batch
    return int(min(most, attempts.records * 2 ** min(max(committed, 0), _DOUBLED)))
