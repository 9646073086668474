"""The build of a checkpoint beside the current one: marked until it is proved, its steps timed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from stateward.contract import storage
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import UNFINISHED
from stateward.runtime.lease.lease import utc_now
from stateward.state.files.checkpoint_copy import size_of


@contextmanager
def unfinished(target_uri: str, made_of: Mapping[str, str | int]) -> Iterator[None]:
    """Empty a folder for a checkpoint, and mark it as unfinished until the block succeeds.

    Args:
        target_uri: The folder.
        made_of: What the checkpoint is made of; shown to people.
    """
    generations.pin(target_uri, utc_now())
    storage.delete(target_uri)
    storage.write_json(f"{target_uri}/{UNFINISHED}", dict(made_of))
    yield
    storage.delete(f"{target_uri}/{UNFINISHED}")


@dataclass(frozen=True)
class Step:
    """A step: its duration in seconds, and the bytes that it added to the target."""

    name: str
    seconds: float
    bytes_written: int


class Steps:
    """The steps that build a target.

    Args:
        target_uri: The folder of the target.
    """

    def __init__(self, target_uri: str) -> None:
        self._target_uri = target_uri
        self._done: list[Step] = []

    @property
    def done(self) -> tuple[Step, ...]:
        """The steps that succeeded, in order."""
        return tuple(self._done)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time the block as a step."""
        begun, size = time.monotonic(), size_of(self._target_uri)
        yield
        seconds = round(time.monotonic() - begun, 3)
        self._done.append(Step(name, seconds, size_of(self._target_uri) - size))
