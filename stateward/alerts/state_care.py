"""The message about a change of a state that a policy has made by itself, or that has failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stateward.alerts.incident import Incident, Message, Topic
from stateward.alerts.incident_text import Words
from stateward.contract.state_care import Change
from stateward.control.care.text import change_text
from stateward.rendering.human_units import format_duration


def care_message(stream: str, change: Change, reasons: Sequence[str], problem: str, now: datetime) -> Message:
    """Describe a change that has ended.

    Args:
        stream: The stream.
        change: The change.
        reasons: Why it was made, one sentence each.
        problem: Why it failed; empty if it did not.
        now: The time, aware.
    """
    what = change_text(change.kind, change.before, change.after)
    took = "" if change.pause_s is None else f" It took {format_duration(change.pause_s)}."
    if change.outcome == "done":
        words = Words(
            f"{stream}: {what}",
            f"The policy auto has changed the state of {stream}: {what}.{took}",
            " ".join(reasons),
            "Nothing: every key and timer was verified. The page of the run has the proof.",
        )
    else:
        words = Words(
            f"{stream}: a change of its state has failed: {what}",
            problem or f"The run {change.run} has failed.",
            " ".join(reasons),
            f"Look at the run {change.run}: its task outcome says where the stream is. The policy does not "
            "try it again for seven days.",
        )
    topic: Topic = "state_care" if change.outcome == "done" else "state_care_failed"
    name = f"{stream}-{topic}-{change.at:%Y%m%dT%H%M%S%f}"
    return Message("acted", now, Incident(name, stream, topic, words, since=change.at, bad_at=now))
