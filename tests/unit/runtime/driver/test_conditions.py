"""Conditions of our errors: the cause of a failure does not depend on module paths."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import traceback

import pytest

from stateward.contract.clients.kafka import KafkaClientError
from stateward.contract.conditions import Condition, ConditionError, conditions_in
from stateward.contract.stream_status import Cause
from stateward.runtime.api.config import ConfigError
from stateward.runtime.api.state_step import MissingStepError
from stateward.runtime.cause import DISK_FULL, LEASE, OTHER, cause_of
from stateward.runtime.checkpoint.generations import PendingOperationError, PointerError
from stateward.runtime.checkpoint.offsets import DataLossError
from stateward.runtime.delta.lookup_tables import LookupGoneError, LookupInvalidError
from stateward.runtime.driver.executor_versions import ExecutorsDifferError
from stateward.runtime.driver.failure import is_transient
from stateward.runtime.kafka.broker import BrokerAwayError, TopicMissingError
from stateward.runtime.kafka.reader import ReadError
from stateward.runtime.keyed.copy_folders import CopyFolderError
from stateward.runtime.keyed.state_upgrade import UpgradeError
from stateward.runtime.lease.lease import LeaseHeldError, LeaseLostError, UnsafeStorageError
from stateward.runtime.sink.output_rows import SchemaError
from stateward.state.compatibility.start import StateRefusedError

PASSES = OTHER
MEANINGS: dict[type[ConditionError], Cause] = {
    BrokerAwayError: PASSES,
    ConfigError: Cause("configuration", lasting=True),
    CopyFolderError: Cause("configuration", lasting=True),
    DataLossError: Cause("data_loss", lasting=True),
    ExecutorsDifferError: Cause("environment", lasting=True),
    KafkaClientError: Cause("configuration", lasting=True),
    LeaseHeldError: LEASE,
    LeaseLostError: LEASE,
    # A restart plans the batch again, if no table has a row of it.
    LookupGoneError: PASSES,
    LookupInvalidError: Cause("configuration", lasting=True),
    MissingStepError: Cause("state", lasting=True),
    PendingOperationError: Cause("operation", lasting=True),
    PointerError: Cause("state", lasting=True),
    ReadError: PASSES,
    SchemaError: Cause("schema", lasting=True),
    StateRefusedError: Cause("state", lasting=True),
    TopicMissingError: Cause("topic", lasting=True),
    UnsafeStorageError: Cause("configuration", lasting=True),
    UpgradeError: Cause("state", lasting=True),
}


def moved(error: type[ConditionError]) -> type[ConditionError]:
    """The same class, built from its source under another module path, without its constructor."""
    file = sys.modules[error.__module__].__file__
    spec = importlib.util.spec_from_file_location(f"stateward.elsewhere.{error.__name__.lower()}", str(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    made: type[ConditionError] = getattr(module, error.__name__)
    assert made is not error
    assert made.__module__ == spec.name
    return type(made.__name__, (made,), {"__init__": Exception.__init__, "__module__": made.__module__})


def as_text(error: Exception) -> str:
    """The text that the JVM gets for an error in one of Spark's Python processes."""
    try:
        raise error
    except Exception:
        return traceback.format_exc()


def over_the_jvm(error: Exception) -> Exception:
    return RuntimeError(
        f"[STREAM_FAILED] Lost task 0.3: org.apache.PythonException: {as_text(error)}\n\tat x"
    )


@pytest.mark.parametrize(
    ("error", "cause"), MEANINGS.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_what_a_failure_means_stays_when_its_class_is_moved(
    error: type[ConditionError], cause: Cause
) -> None:
    elsewhere = moved(error)("gone")
    text = over_the_jvm(elsewhere)

    assert error.__module__ not in as_text(elsewhere), "the text names the module that it was moved from"
    assert (cause_of(elsewhere), cause_of(text)) == (cause, cause)
    assert is_transient(text) == (error in (ReadError, BrokerAwayError))


def test_every_condition_is_that_of_one_class() -> None:
    assert {error.condition for error in MEANINGS} == set(Condition)
    assert len(MEANINGS) == len(Condition)


def test_the_marker_is_no_part_of_the_message_and_is_written_once() -> None:
    error = DataLossError("topic t: gone")
    again = pickle.loads(pickle.dumps(error))

    assert (str(error), error.args, repr(again)) == ("topic t: gone", ("topic t: gone",), repr(error))
    assert as_text(again).count("[STATEWARD_DATA_LOSS]") == 1


def test_an_error_that_another_was_raised_from_is_found_in_the_text() -> None:
    outer = RuntimeError("the batch is not committed")
    outer.__cause__ = DataLossError("gone")

    assert cause_of(over_the_jvm(outer)).kind == "data_loss"


def test_of_several_the_one_that_lasts_counts() -> None:
    both = (
        as_text(LeaseLostError("run r2 has it")) + as_text(TopicMissingError("t")) + "No space left on device"
    )

    assert cause_of(RuntimeError(both)).kind == "topic"
    assert cause_of(RuntimeError(as_text(LeaseLostError("x")) + "No space left on device")) == DISK_FULL


def test_a_code_of_another_release_means_nothing() -> None:
    assert conditions_in("[STATEWARD_OF_TOMORROW] [STATEWARD_LEASE_LOST]") == {Condition.LEASE_LOST}
