"""Why a driver died that came to say nothing itself, as the end of its log has it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONGEST = 300
# In which the JVM says no more than that it ends.
_NO_CAUSE = ("Error: Could not create the Java Virtual Machine", "Error: A fatal exception has occurred")
# The line after it says why, in whatever words.
_VM_DIED = "Error occurred during initialization of VM"
_THROWN = re.compile(
    r"(?:Exception in thread \S+ |Caused by: )*(?P<said>[\w.$]*(?:Error|Exception|Exit|Interrupt)\b.*)"
)
_REFUSED = re.compile(
    r"(?:Error|Unrecognized|Invalid|Unknown|Conflicting|Could not|There is insufficient)\b.*"
)


def last_words(log: str) -> str:
    """Return the last error of a log, in one line, or an empty text.

    The cause at the bottom of a Java error counts, and the line below the frames of a Python error.

    Args:
        log: The end of what the processes of the driver have printed.
    """
    errors = list(_errors(log))
    return errors[-1][:_LONGEST] if errors else ""


def _errors(log: str) -> Iterator[str]:
    before = ""
    for line in log.splitlines():
        before, after = line, before == _VM_DIED
        if line.startswith(_NO_CAUSE):
            continue
        if after and line.strip():
            yield line.strip()
        elif thrown := _THROWN.match(line):
            yield thrown["said"].strip()
        elif _REFUSED.match(line):
            yield line.strip()
