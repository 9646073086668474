"""How a driver ends: its exit code and its final status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.process_output import DriverExit
from stateward.contract.reading import as_json
from stateward.contract.stream_status import Cause
from stateward.runtime.cause import LEASE, cause_of
from stateward.runtime.driver.failure import explain
from stateward.runtime.lease.lease import LeaseLostError


@dataclass(frozen=True)
class Ending:
    """The end of a driver.

    Attributes:
        code: Exit code.
        state: ``stopped``, ``refused`` or ``failed``.
        message: The reason.
        cause: The kind of failure; None after a drain.
    """

    code: DriverExit
    state: str
    message: str
    cause: Cause | None = None

    @property
    def status_fields(self) -> dict[str, Any]:
        """The fields of the final status."""
        cause = as_json(self.cause) if self.cause else None
        return {"state": self.state, "message": self.message, "cause": cause}


def drained(reason: str) -> Ending:
    """The end after a requested drain."""
    return Ending(DriverExit.DRAINED, "stopped", reason)


def ending_of(error: Exception, lost: LeaseLostError | None) -> Ending:
    """The end after a failure.

    Args:
        error: The failure.
        lost: Set if the lease was lost as well; that may have caused the failure.
    """
    if isinstance(error, ConditionError) and error.condition == Condition.STATE_REFUSED:
        return Ending(DriverExit.REFUSED, "refused", str(error), cause_of(error))
    lost = error if isinstance(error, LeaseLostError) else lost
    if lost is not None:
        return Ending(DriverExit.LEASE_LOST, "failed", str(lost), LEASE)
    return Ending(DriverExit.FAILED, "failed", explain(error), cause_of(error))
