"""Finds the oracle of each stream.

Most streams need no entry: their declaration has a logic of one key, or an oracle. Any other has one here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proof.truth.expected import StreamTruth, TruthError
from proof.truth.keyed_truth import KeyedTruth
from stateward.project.project import NoSuchStreamError, Project
from stateward.runtime.api.any_job import writing
from stateward.runtime.api.config import Config
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import StreamJob

Find = Callable[[Config, int], StreamTruth]

OTHERS: Mapping[str, Find] = {}
"""By stream: creates its truth from its launch and the time of sending (ms)."""


def truth_about(config: Config, recorded_ms: int) -> StreamTruth:
    """Create the truth of a stream.

    Args:
        config: Its launch.
        recorded_ms: When the records are sent, milliseconds since 1970 UTC.

    Raises:
        TruthError: The stream has no oracle.
    """
    find = OTHERS.get(config.stream)
    if find is not None:
        return find(config, recorded_ms)
    try:
        job = Project.imported().declaration(config.stream)
    except NoSuchStreamError as error:
        raise TruthError(
            f"stream {config.stream}: expected its declaration or an entry in proof/truth/registry.py, "
            f"found neither ({error})"
        ) from None
    if not isinstance(job, StreamJob | NativeJob):
        raise TruthError(
            f"stream {config.stream}: expected an entry in proof/truth/registry.py, because it has no "
            f"oracle; found none"
        )
    return KeyedTruth(writing(job, config.tables), config, recorded_ms)
