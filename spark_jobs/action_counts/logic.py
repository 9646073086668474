"""Count the actions of one user until there is none for a while. Pure.

Written for ``clock: processing``: the times are those at which events were read, in the order of arrival. It
does not know that, so by event time it is as exact as any other stream. Idle is four columns::

    actions    a  b     c                 a and b: the count is 2
               |--|---->|                 at | the final row; c begins at 1 again
"""

from dataclasses import dataclass

from spark_jobs.action_counts.model import TIMEOUT, ActionEvent, Count, CountSettings, CurrentCount
from stateward.runtime.api.key_logic import Rows


@dataclass(frozen=True)
class CountLogic:
    """`stateward.runtime.api.key_logic.KeyLogic` of the stream."""

    settings: CountSettings

    def apply(self, key: str, state: Count | None, event: ActionEvent) -> tuple[Count, Rows]:
        """Count the event; it is the last action even if its time is older, as when a clock was set back."""
        if state is None:
            count = Count(event.event_ms, event.event_ms, 1, event.action, event.event_id)
        else:
            count = Count(
                min(state.first_ms, event.event_ms),
                max(state.last_ms, event.event_ms),
                state.action_count + 1,
                event.action,
                event.event_id,
            )
        return count, (current(key, count),)

    def deadline(self, state: Count) -> int:
        """Idle since the newest action."""
        return state.last_ms + self.settings.idle_ms

    def expire(self, key: str, state: Count, at_ms: int) -> tuple[None, Rows]:
        """End the count, which the final row keeps; ``at_ms`` is the deadline."""
        row = current(key, state)
        return None, (row._replace(last_action=TIMEOUT, is_final=True, updated_ms=at_ms),)


def current(user_id: str, count: Count) -> CurrentCount:
    """The row of a count that has not ended."""
    return CurrentCount(
        user_id=user_id,
        action_count=count.action_count,
        last_action=count.last_action,
        last_event_id=count.last_event_id,
        is_final=False,
        first_action_ms=count.first_ms,
        last_action_ms=count.last_ms,
        updated_ms=count.last_ms,
    )
