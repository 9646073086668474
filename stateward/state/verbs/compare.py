"""The verb ``compare``: two states are equal, or what differs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F

from stateward.contract.process_output import Report
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.keyed.newest_states import keyed_state
from stateward.runtime.keyed.state_log import LOG_NAME
from stateward.state.errors import StateError
from stateward.state.inspection.comparison import (
    KEYS,
    Comparison,
    Samples,
    State,
    compare_by,
    compare_entries,
)
from stateward.state.inspection.masker import Masker
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import ReadOnly
from stateward.state.reader.checksums import StateDigests, digest_rows
from stateward.state.reader.stores import StateReadError, readable
from stateward.state.reader.variables import TIMERS, entries, variables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXAMPLES = 3
# A chunk of a log may hold the states of a thousand keys; more of it is not read.
_LONGEST = 120


class CompareVerb(ReadOnly):
    """Report whether two states are equal, or what differs."""

    name = "compare"

    def apply(self) -> Answer:
        """Compare savepoints, or one with the current state.

        Raises:
            StateError: Both sides are the same state, or one of them cannot be read.
        """
        context, arguments = self.context, self.context.request.arguments
        if arguments["left"] == arguments["right"]:
            raise StateError(
                f"stream {context.stream}: expected two states to compare, found one; name another savepoint"
            )
        left, right = (State(context.checkpoint(arguments[side])) for side in ("left", "right"))
        by: Literal["keys", "entries"] = "keys" if arguments["by_key"] else "entries"
        found = compare(context.spark(), left, right, context.report, by=by, masker=context.masker)
        names = [arguments[side] or "the current state" for side in ("left", "right")]
        lines = [f"{names[0]} and {names[1]} are {'equal' if found.equal else 'different'}."]
        if not found.equal and by == "entries" and isinstance(context.job, StreamJob):
            lines.append("Entries are compared as Spark keeps them; by key it is said which states differ.")
        return Answer(tuple(lines), _differences(found), asdict(found), is_good=found.equal)


def _differences(found: Comparison) -> tuple[Listing, ...]:
    counts = [(one.variable, one.only_left, one.only_right, one.changed) for one in found.differences]
    examples = [
        (one.variable, *(_beginning(text) for text in (sample.key, sample.left, sample.right)))
        for one in found.differences
        for sample in one.samples[:_EXAMPLES]
    ]
    return (
        Listing("Differences", ("variable", "only left", "only right", "changed"), counts),
        Listing("Such as", ("variable", "key", "left", "right"), examples),
    )


def _beginning(text: str | None) -> str:
    if text is None:
        return "not there"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


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
