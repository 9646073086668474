"""The verdict before a start, and the descriptor that an allowed start writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateward.contract.conditions import Condition, ConditionError
from stateward.state.compatibility.descriptor import combined, describe, read_descriptor, write_descriptor
from stateward.state.compatibility.findings import Verdict
from stateward.state.compatibility.verdict import judge

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config


class StateRefusedError(ConditionError, RuntimeError):
    """The checkpoint's state is not compatible with the code; the text has the causes and ways out."""

    condition = Condition.STATE_REFUSED

    def __init__(self, stream: str, verdict: Verdict) -> None:
        refused = [str(one) for one in verdict.findings if one.level == verdict.level]
        others = len(verdict.findings) - len(refused)
        more = f" `stateward state verdict {stream}` shows {others} more." if others else ""
        super().__init__(
            f"stream {stream}: the state is {_WORDS[verdict.level]}: {' | '.join(refused)}.{more}"
        )
        self.verdict = verdict


_WORDS = {"needs migration": "not readable as it is (needs migration)", "incompatible": "incompatible"}


def judge_start(job: AnyJob, config: Config, checkpoint_uri: str | None = None) -> Verdict:
    """The verdict on a start. Needs no JVM; writes nothing.

    Args:
        job: The stream's declaration.
        config: Configuration of the launch.
        checkpoint_uri: The checkpoint's folder; by default the launch's.
    """
    return judge(read_descriptor(checkpoint_uri or config.checkpoint_uri), describe(job, config))


def require_start(job: AnyJob, config: Config) -> Verdict:
    """Require a verdict that allows the start.

    Raises:
        StateRefusedError: It does not; nothing was written.
    """
    verdict = judge_start(job, config)
    if not verdict.allows_start:
        raise StateRefusedError(config.stream, verdict)
    return verdict


def note_start(job: AnyJob, config: Config) -> None:
    """Write the descriptor of the checkpoint, before the first batch of a start runs."""
    uri = config.checkpoint_uri
    write_descriptor(uri, combined(read_descriptor(uri), describe(job, config)))
