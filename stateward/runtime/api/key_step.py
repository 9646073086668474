"""Steps from one rule for a stream's keys to the next, declared beside its state steps. Pure.

A `StateStep` changes what is kept for a key while a bucket is read. A key decides the bucket in which its
state lies, so a step of keys is taken by `stateward state migrate`, for all of them at once
(docs/state-migrate.md).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stateward.runtime.api.state_step import MissingStepError, PlainState, missing


class KeyStep(NamedTuple):
    """From version ``of`` of a stream's keys to the next. Its functions are pure and module-level.

    Attributes:
        of: The version it begins with.
        says: What it does, for the person who starts the stream.
        key: From a key to what it is in the next version; None: keys stay what they are.
        merge: Two states whose keys have become one, from that key and both in the present version of the
            state, the one of the lesser old key first; None: keys that meet are refused.
    """

    of: int
    says: str
    key: Callable[[str], str] | None = None
    merge: Callable[[str, PlainState, PlainState], PlainState] | None = None


def key_chain(steps: Sequence[KeyStep], of: int, to: int) -> tuple[KeyStep, ...]:
    """The steps from one version of the keys to another, in order.

    Raises:
        MissingStepError: The keys are newer than what is wanted, or a step is missing.
    """
    if of > to:
        raise MissingStepError(
            f"expected keys of version {to} or older, found version {of}: a newer release of the stream has "
            "made them; start that one, or restore a savepoint from before it"
        )
    found = {step.of: step for step in steps if of <= step.of < to}
    if gaps := missing(found, of, to):
        raise MissingStepError(
            f"expected a step of keys for each version from {of} to {to}, found none from "
            f"{', '.join(map(str, gaps))}: declare KeyStep({gaps[0]}, ...) in the stream's model.py"
        )
    return tuple(found[version] for version in sorted(found))


def moves_keys(says: Mapping[str, Mapping[str, Any]], of: int, to: int) -> bool:
    """Whether a described step between two versions has a function for keys.

    Args:
        says: The steps by version, as in a descriptor: ``key`` is true for a step with a function.
        of: The version of the keys.
        to: The version that is wanted.
    """
    return any(says.get(str(version), {}).get("key", False) for version in range(of, to))
