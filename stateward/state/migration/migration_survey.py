"""Counts the changes of a migration over every key, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from stateward.runtime.api.key_logic import masked_key
from stateward.state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.state.inspection.masker import Masker

_SHOWN = 5
_LONGEST = 500


class MigrationRefusedError(StateError):
    """The state cannot be migrated; nothing was changed."""


@dataclass(frozen=True)
class Example:
    """A key before and after the migration, and its states as JSON."""

    old: str
    key: str
    before: str
    after: str


@dataclass(frozen=True)
class Survey:
    """The changes of a migration.

    Attributes:
        keys: Number of keys.
        changed_keys: Number of keys that change.
        changed_states: Number of states that change.
        merged: Number of keys that are merged into another.
        examples: The first changed keys in order; changed states if no key changes.
    """

    keys: int
    changed_keys: int
    changed_states: int
    merged: int
    examples: tuple[Example, ...]

    def masked(self, masker: Masker) -> Survey:
        """The survey with masked examples."""
        shown = [
            Example(
                masker.key(one.old),
                masker.key(one.key),
                masker.text(one.before, one.old)[:_LONGEST],
                masker.text(one.after, one.key)[:_LONGEST],
            )
            for one in self.examples
        ]
        return replace(self, examples=tuple(shown))


def survey_of(stream: str, moved: DataFrame, before: DataFrame, *, merges: bool) -> Survey:
    """Count the changes.

    Args:
        stream: The stream's name.
        moved: The keys with their new keys and states: ``old string, key string, state binary``.
        before: The keys with their old states: ``old string, was binary``.
        merges: Whether states whose keys meet are merged.

    Raises:
        MigrationRefusedError: Keys meet, and no step merges them.
    """
    both = moved.join(before, "old").cache()
    try:
        row = both.agg(
            F.count("*").alias("keys"),
            F.count_if(F.col("old") != F.col("key")).alias("changed_keys"),
            F.count_if(F.col("state") != F.col("was")).alias("changed_states"),
            F.countDistinct("key").alias("distinct"),
        ).collect()[0]
        merged = row["keys"] - row["distinct"]
        if merged and not merges:
            raise _refused(stream, both)
        return Survey(row["keys"], row["changed_keys"], row["changed_states"], merged, _examples(both))
    finally:
        both.unpersist()


def _refused(stream: str, both: DataFrame) -> MigrationRefusedError:
    met = (
        both.groupBy("key")
        .agg(F.array_sort(F.collect_list("old")).alias("olds"))
        .where(F.size("olds") > 1)
        .orderBy("key")
        .limit(_SHOWN)
        .collect()
    )
    named = "; ".join(
        f"{', '.join(map(masked_key, row['olds'][:_SHOWN]))} become {masked_key(row['key'])}" for row in met
    )
    return MigrationRefusedError(
        f"stream {stream}: expected a distinct new key for every key, found keys that meet: {named}. "
        "Give the KeyStep a function `merge`, or return distinct keys. Nothing was changed."
    )


def _examples(both: DataFrame) -> tuple[Example, ...]:
    for differs in (F.col("old") != F.col("key"), F.col("state") != F.col("was")):
        rows = both.where(differs).orderBy("old").limit(_SHOWN).collect()
        if rows:
            return tuple(
                Example(row["old"], row["key"], bytes(row["was"]).decode(), bytes(row["state"]).decode())
                for row in rows
            )
    return ()
