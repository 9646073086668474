"""The section `state_care` of a stream's YAML, as the rules of the policy and as times."""

from __future__ import annotations

import zlib

from stateward.control.care.policy import Rules
from stateward.project.spec import StreamSpec

# 02:00 to 04:00: not all streams at once, and before the nightly validations.
_FROM_MINUTE, _MINUTES = 120, 120


def rules_of(spec: StreamSpec) -> Rules:
    """Return the rules of a stream's care."""
    section = spec.state_care
    limits = section.limits
    return Rules(section.policy, section.looks, limits.max_pause, limits.max_partitions, section.day)


def schedule_of(spec: StreamSpec) -> str:
    """Return when a stream's window opens, as a cron expression in UTC.

    Without one it is daily, at a minute that follows from the stream's name. A YAML from before this section
    has it in `savepoints.schedule`.
    """
    if spec.state_care.schedule is not None:
        return spec.state_care.schedule
    if spec.savepoints is not None and spec.savepoints.schedule is not None:
        return spec.savepoints.schedule
    minute = _FROM_MINUTE + zlib.crc32(spec.stream.encode()) % _MINUTES
    return f"{minute % 60} {minute // 60} * * *"
