"""The frames of a validation as people may see them: with the personal values of every table masked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stateward.quality.privacy.masking import ColumnMasker, secret_of_this_run
from stateward.quality.privacy.personal import masking_conflict, personal_columns
from stateward.quality.tables.version_range import ValidationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stateward.quality.suites.suite import Suite
    from stateward.quality.validation.frames import Frames


@dataclass(frozen=True)
class Privacy:
    """Masks what a validation of one table shows.

    Attributes:
        personal: columns of the table whose values are masked.
    """

    stream: str
    table: str
    masker: ColumnMasker
    personal: frozenset[str]

    def shown(self, frames: Frames) -> Frames:
        """Return the masked frames; Great Expectations sees no others."""
        others = {name: self._over(name, frame) for name, frame in frames.others.items()}
        return replace(
            frames,
            table=self.over(frames.table),
            batch=self.over(frames.batch),
            others=others,
            masker=self.over,
        )

    def over(self, frame: DataFrame) -> DataFrame:
        """Return rows of the table with personal values masked."""
        return self._over(self.table, frame)

    def _over(self, table: str, frame: DataFrame) -> DataFrame:
        return self.masker.over(frame, personal_columns(self.stream, table, dict(frame.dtypes)))


def privacy_of(spark: SparkSession, suite: Suite, stream: str, frames: Frames) -> Privacy:
    """Return the masking of a validation.

    Raises:
        ValidationError: an expectation looks into values that are masked.
    """
    personal = personal_columns(stream, suite.table, dict(frames.table.dtypes))
    if found := masking_conflict(suite.expectations, personal):
        raise ValidationError(f"{stream}: suite {suite.name}: {found}")
    return Privacy(stream, suite.table, ColumnMasker(spark, secret_of_this_run()), personal)
