"""What a driver does with the state in its checkpoint beyond running the query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config


@dataclass(frozen=True)
class StateChecks:
    """The functions; `stateward.driver` takes them from `stateward.state`.

    Attributes:
        with_buckets_of: Returns a configuration with the number of buckets of the checkpoint at a URI.
        require_start: Raises an error of the condition ``STATE_REFUSED`` if the code cannot run on the state.
        note_start: Records what the checkpoint may contain from the first batch of a start on.
        take_back_plan: Takes back the plan of a batch that no driver could run, from the checkpoint's URI,
            the URIs of tables by name, the topics and the most records of a batch.
    """

    with_buckets_of: Callable[[Config, str], Config]
    require_start: Callable[[AnyJob, Config], object]
    note_start: Callable[[AnyJob, Config], None]
    take_back_plan: Callable[[str, Mapping[str, str], Collection[str], int], None]
