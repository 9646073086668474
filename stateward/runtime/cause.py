"""Classifies failures by cause, and whether the cause is lasting, so that a restart would fail again.

Only causes that are known to be lasting are classified so. A lasting cause taken for a transient one costs a
few restarts; a transient cause taken for a lasting one stops a stream without need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stateward.contract.conditions import Condition, conditions_in
from stateward.contract.stream_status import Cause

OTHER = Cause("other", lasting=False)
DISK_FULL = Cause("disk_full", lasting=False)
STORAGE = Cause("storage", lasting=False)
EXECUTORS = Cause("executors", lasting=False)
LEASE = Cause("lease", lasting=False)

# Lasting causes; if several match, the first one counts. Our own errors are matched by their conditions,
# those of Spark and of the Delta writer by their messages.
_STATE = Cause("state", lasting=True)
_CONFIGURATION = Cause("configuration", lasting=True)
_LASTING: tuple[tuple[Condition | re.Pattern[str], Cause], ...] = (
    (Condition.DATA_LOSS, Cause("data_loss", lasting=True)),
    (Condition.STATE_REFUSED, _STATE),
    (Condition.STATE_STEP_MISSING, _STATE),
    (Condition.STATE_STEP_FAILED, _STATE),
    (
        re.compile(
            r"\[STATE_STORE_(?:INVALID_(?:CONFIG_AFTER_RESTART|VALUE_SCHEMA_EVOLUTION|VARIABLE_TYPE_CHANGE)"
            r"|(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|COLUMN_FAMILY_SCHEMA_INCOMPATIBLE"
            r"|(?:KEY|VALUE)_ROW_FORMAT_VALIDATION_FAILURE|VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED"
            r"|STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED|CHECKPOINT_LOCATION_NOT_EMPTY)\]"
            r"|\[STREAMING_STATEFUL_OPERATOR_(?:NOT_MATCH_IN_STATE_METADATA|MISSING_STATE_DIRECTORY)\]"
            r"|\[STREAMING_(?:CHECKPOINT_MISSING_METADATA_FILE|UNFINISHED_REPARTITION_DETECTED)\]"
        ),
        _STATE,
    ),
    (Condition.GENERATION_UNKNOWN, _STATE),
    (Condition.OPERATION_PENDING, Cause("operation", lasting=True)),
    (Condition.TOPIC_MISSING, Cause("topic", lasting=True)),
    (Condition.CONFIGURATION_INVALID, _CONFIGURATION),
    (Condition.KAFKA_CLIENT_INVALID, _CONFIGURATION),
    (Condition.LOOKUP_INVALID, _CONFIGURATION),
    (Condition.COPY_FOLDER_UNSAFE, _CONFIGURATION),
    (Condition.STORAGE_UNSAFE, _CONFIGURATION),
    (
        re.compile(r"\[(?:INVALID_CONF_VALUE|INVALID_SPARK_CONFIG|CANNOT_MODIFY_STATIC_CONFIG)[.\]]"),
        _CONFIGURATION,
    ),
    (Condition.EXECUTORS_DIFFER, Cause("environment", lasting=True)),
    (Condition.ROWS_INVALID, Cause("schema", lasting=True)),
    (re.compile(r"_internal\.SchemaMismatchError:"), Cause("schema", lasting=True)),
)
# The messages of the operating system, the JVM, RocksDB and the Delta writer.
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
# An object store that answers, but not now (503 SlowDown): to Hadoop's client, s3fs and the Delta writer.
_REFUSED = re.compile(
    r"SlowDown|[Rr]educe your request rate|AWSServiceThrottledException|AWSStatus500Exception"
    r"|An error occurred \((?:50[0234]|ServiceUnavailable|InternalError)\)"
    r"|\b(?:500 Internal Server Error|502 Bad Gateway|503 Service Unavailable|504 Gateway Timeout)"
    r"|\(Service: S3, Status Code: 50[0234]"
)
_STYLED = re.compile(r"\x1b\[[0-9;]*m|↳")
_LEASE = {Condition.LEASE_HELD, Condition.LEASE_LOST}


def cause_of(error: BaseException) -> Cause:
    """The cause of a failure, as far as known."""
    text, conditions = full_text(error), conditions_of(error)
    for sign, cause in _LASTING:
        if sign in conditions if isinstance(sign, Condition) else sign.search(text):
            return cause
    if _FULL.search(text):
        return DISK_FULL
    if _REFUSED.search(text):
        return STORAGE
    return LEASE if conditions & _LEASE else OTHER


def conditions_of(error: BaseException) -> set[Condition]:
    """The conditions of an error, its causes and its message."""
    return conditions_in(full_text(error), _chain(error))


def one_line(text: str) -> str:
    """A message without line breaks, and without the colours and arrows of the Delta writer."""
    return " ".join(_STYLED.sub(" ", text).split())


def full_text(error: BaseException) -> str:
    """The types and messages of an error and its causes, with their stacks in the JVM."""
    return "\n".join(_texts(error))


def _texts(error: BaseException) -> Iterator[str]:
    for one in _chain(error):
        yield f"{type(one).__module__}.{type(one).__qualname__}: {one}"
        # PySpark keeps the stack of a JVM error here.
        yield str(getattr(one, "_stackTrace", None) or "")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, including those in the JVM."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = getattr(one, "_cause", None)
        waiting += [inner if isinstance(inner, BaseException) else None, one.__cause__]
