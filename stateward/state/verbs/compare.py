"""The verb ``compare``: two states are equal, or what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F

from stateward.contract.job_steps import Report
from stateward.runtime.keyed.newest_states import keyed_state
from stateward.runtime.keyed.state_log import LOG_NAME
from stateward.state.files.checksums import StateDigests, digest_rows
from stateward.state.inspection.comparison import (
    KEYS,
    Comparison,
    Samples,
    State,
    compare_by,
    compare_entries,
)
from stateward.state.inspection.masker import Masker
from stateward.state.reader.stores import StateReadError, readable
from stateward.state.reader.variables import TIMERS, entries, variables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def compare(
    spark: SparkSession,
    left: State,
    right: State,
    report: Report,
    *,
    by: Literal["entries", "keys"] = "entries",
    samples: int = 10,
    masker: Masker | None = None,
) -> Comparison:
    """Compare two states.

    Args:
        spark: A session.
        left: One state.
        right: The other.
        report: Called with ``digest`` and ``compare``.
        by: ``entries``, all that Spark keeps, as it is stored; ``keys``, what a keyed stream's state means.
        samples: How many entries to show of each variable that differs.
        masker: Masks them; None masks everything but numbers and times.

    Raises:
        StateReadError: One of them cannot be read, or is not the state of a keyed stream.
    """
    compared = compare_keys if by == "keys" else compare_entries
    return compared(spark, left, right, report, Samples(samples, masker or Masker()))


def compare_keys(
    spark: SparkSession, left: State, right: State, report: Report, samples: Samples
) -> Comparison:
    """Compare what two states of a keyed stream mean: the newest state of every key, and the timers.

    Raises:
        StateReadError: One of them cannot be read, or is not the state of a keyed stream.
    """
    for state in (left, right):
        if not any(variable.name == LOG_NAME for variable in variables(spark, state.checkpoint_uri)):
            raise StateReadError(
                f"{state.checkpoint_uri}: expected the state of a keyed stream, with a variable {LOG_NAME}, "
                "found none; compare it entry by entry instead"
            )
    return compare_by(
        spark,
        (left, right),
        report,
        digest=lambda state: _digests(spark, state),
        rows=lambda state, names: _newest(spark, state).where(F.col("variable").isin(names)),
        samples=samples,
    )


def _digests(spark: SparkSession, state: State) -> StateDigests:
    with readable(spark, state.checkpoint_uri):
        return digest_rows(_newest(spark, state))


def _newest(spark: SparkSession, state: State) -> DataFrame:
    timers = [found for found in variables(spark, state.checkpoint_uri) if found.name == TIMERS]
    with readable(spark, state.checkpoint_uri):
        keys = keyed_state(spark, state.checkpoint_uri, state.batch_id).select(
            F.lit(KEYS).alias("variable"), "key", F.col("state").alias("value")
        )
        if not timers:
            return keys
        rows = entries(spark, state.checkpoint_uri, timers, state.batch_id)
        return keys.unionAll(rows.select("variable", "key", "value"))
