"""All rows of ``session_windows`` from all events, seen at once: the oracle of its plan. Pure.

The sessions are those that the logic of ``user_sessions`` makes of events without ``is_last`` and
``timeout_s``.
"""

from collections import defaultdict
from collections.abc import Iterable

from spark_jobs.session_windows.model import SessionWindow, UserEvent
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from stateward.runtime.api.key_logic import replay_oracle


def all_rows(events: Iterable[UserEvent], *, gap_ms: int) -> list[SessionWindow]:
    """The rows of all sessions.

    Args:
        events: In any order. The first by event time counts of those with the same user and id.
        gap_ms: An event this long after the one before it starts another session, milliseconds.
    """
    by_user: dict[str, list[SessionEvent]] = defaultdict(list)
    for event in events:
        by_user[event.user_id].append(SessionEvent(event.event_id, event.event_ms, event.event_type))
    logic = SessionLogic(gap_ms)
    return [
        # The columns of `sessions`, except the reason: it would always be the gap.
        SessionWindow(*(getattr(session, name) for name in SessionWindow._fields))
        for user_id, found in by_user.items()
        for session in replay_oracle(logic, user_id, found)
    ]
