"""Steps from one version of a stream's state to the next, declared in its ``model.py``. Pure.

A step sees the plain JSON of what is kept for one key, as `codec` wrote it: the state as an object by field
name, an event that is held as a list in the order of the event's fields; named tuples within them are lists
too. So a step does not change when the types in ``model.py`` do, and stays for as long as a checkpoint may
hold states of its version.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from stateward.contract.conditions import Condition, ConditionError

PlainState = dict[str, Any]
PlainEvent = list[Any]


class StateStep(NamedTuple):
    """From version ``of`` of a state's schema to the next. Its functions are pure and module-level.

    Attributes:
        of: The version it begins with.
        says: What it does, for the person who starts the stream.
        state: From a key and its state to its state in the next version; None: it is read as it is.
        event: The same for an event that is held.
    """

    of: int
    says: str
    state: Callable[[str, PlainState], PlainState] | None = None
    event: Callable[[str, PlainEvent], PlainEvent] | None = None


class MissingStepError(ConditionError, RuntimeError):
    """States of an older version cannot be brought to the present one."""

    condition = Condition.STATE_STEP_MISSING


def missing(declared: Iterable[int], of: int, to: int) -> list[int]:
    """The versions between ``of`` and ``to`` from which no step leads on.

    Args:
        declared: The versions with which the declared steps begin.
        of: The version of the states.
        to: The version that is wanted.
    """
    known = set(declared)
    return [version for version in range(of, to) if version not in known]


def chain(steps: Sequence[StateStep], of: int, to: int) -> list[StateStep]:
    """The steps from one version to another, in order.

    None at all where none is declared: then only fields with defaults may have come, and the codec reads old
    states by itself. The verdict before a start sees to that (docs/state-compatibility.md).

    Raises:
        MissingStepError: The states are newer than what is wanted, or some steps are declared, not all.
    """
    if of > to:
        raise MissingStepError(
            f"expected states of version {to} or older, found version {of}: a newer release of the stream "
            "has written them; start that one, or restore a savepoint from before it"
        )
    found = {step.of: step for step in steps if of <= step.of < to}
    gaps = missing(found, of, to)
    if found and gaps:
        raise MissingStepError(
            f"expected a step for each version from {of} to {to}, found none from "
            f"{', '.join(map(str, gaps))}: declare it in STATE_STEPS of the stream's model.py"
        )
    return [found[version] for version in sorted(found)]
