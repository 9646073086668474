"""What kind of cause a failure has, and whether it lasts: then starting again meets it again.

Only what is known to last is called so. To take a lasting cause for a passing one costs a few restarts; the
other way round a stream would stand still for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Cause:
    """A cause, as the status has it.

    Attributes:
        kind: ``state``, ``operation``, ``configuration``, ``schema``, ``topic``, ``data_loss``,
            ``disk_full``, ``lease`` or ``other``.
        lasting: Whether it is there until a person has done something.
    """

    kind: str
    lasting: bool

    def to_json(self) -> dict[str, Any]:
        """The object in the status document."""
        return asdict(self)


OTHER = Cause("other", lasting=False)
DISK_FULL = Cause("disk_full", lasting=False)
LEASE = Cause("lease", lasting=False)

# Errors of our own by their full names, as a traceback of Python has them in the text of a Spark error; those
# of Spark by their conditions.
_LASTING = (
    (r"spark_jobs\.runtime\.offsets\.DataLossError:", "data_loss"),
    (r"spark_jobs\.state\.start\.StateRefusedError:", "state"),
    (r"spark_jobs\.runtime\.(?:state_step\.MissingStepError|upgrade\.UpgradeError):", "state"),
    (
        r"\[STATE_STORE_(?:INVALID_(?:CONFIG_AFTER_RESTART|VALUE_SCHEMA_EVOLUTION|VARIABLE_TYPE_CHANGE)"
        r"|(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|COLUMN_FAMILY_SCHEMA_INCOMPATIBLE"
        r"|(?:KEY|VALUE)_ROW_FORMAT_VALIDATION_FAILURE|VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED"
        r"|STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED|CHECKPOINT_LOCATION_NOT_EMPTY)\]",
        "state",
    ),
    (r"\[STREAMING_STATEFUL_OPERATOR_(?:NOT_MATCH_IN_STATE_METADATA|MISSING_STATE_DIRECTORY)\]", "state"),
    (r"\[STREAMING_(?:CHECKPOINT_MISSING_METADATA_FILE|UNFINISHED_REPARTITION_DETECTED)\]", "state"),
    (r"spark_jobs\.runtime\.generations\.PointerError:", "state"),
    (r"spark_jobs\.runtime\.generations\.PendingOperationError:", "operation"),
    (r"spark_jobs\.runtime\.broker\.TopicMissingError:", "topic"),
    (
        r"spark_jobs\.runtime\.(?:config\.ConfigError|kafka_client\.KafkaClientError"
        r"|copy_folders\.CopyFolderError):",
        "configuration",
    ),
    (r"\[(?:INVALID_CONF_VALUE|INVALID_SPARK_CONFIG|CANNOT_MODIFY_STATIC_CONFIG)[.\]]", "configuration"),
    (r"spark_jobs\.runtime\.rows\.SchemaError:|_internal\.SchemaMismatchError:", "schema"),
)
_KINDS = tuple((re.compile(pattern), Cause(kind, lasting=True)) for pattern, kind in _LASTING)
# Of the operating system, the JVM, RocksDB and the Delta writer, all in these words.
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_LEASE = re.compile(r"spark_jobs\.runtime\.lease\.Lease(?:Held|Lost)Error:")


def cause_of(error: BaseException) -> Cause:
    """The cause of a failure, as far as it is known."""
    text = full_text(error)
    for pattern, cause in _KINDS:
        if pattern.search(text):
            return cause
    if _FULL.search(text):
        return DISK_FULL
    return LEASE if _LEASE.search(text) else OTHER


def full_text(error: BaseException) -> str:
    """All that an error says, its stack in the JVM and its causes included; each begins with its type."""
    return "\n".join(_texts(error))


def _texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield f"{type(one).__module__}.{type(one).__qualname__}: {one}"
        # Where PySpark keeps what came with an error of the JVM.
        yield str(getattr(one, "_stackTrace", None) or "")
        inner = getattr(one, "_cause", None)
        waiting += [inner if isinstance(inner, BaseException) else None, one.__cause__]
