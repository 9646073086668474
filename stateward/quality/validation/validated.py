"""What a validation has found, with the rows at hand: for whoever keeps, counts or shows failing rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.quality.quarantine.failing_rows import BATCH, failing_rows_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stateward.quality.validation.expectations import Outcome
    from stateward.quality.validation.frames import Frames
    from stateward.quality.validation.records import Validation

_VIEW = "rows_of_the_expectation"


@dataclass(frozen=True)
class Validated:
    """A validation whose outcomes are known and not yet written down.

    Attributes:
        validation: what was validated.
        outcomes: one per expectation, in the suite's order.
        frames: the rows they are about.
    """

    validation: Validation
    outcomes: tuple[Outcome, ...]
    frames: Frames

    def failing_frame(self, outcome: Outcome) -> DataFrame | None:
        """Return all rows of the table that break the expectation, with the table's columns as they are.

        Returns:
            None when it holds, is about the whole table, cannot be evaluated, or names something else than
            rows of the table.
        """
        found = self.breaking_frame(outcome)
        return found if found is not None and found.columns == self.frames.table.columns else None

    def breaking_frame(self, outcome: Outcome) -> DataFrame | None:
        """Return whatever breaks the expectation; its own query may find other rows than the table's."""
        from pyspark.errors import AnalysisException

        expectation = outcome.expectation
        query = failing_rows_query(expectation.type, outcome.kwargs)
        if outcome.success or query is None:
            return None
        frame = self.frames.batch if expectation.query is not None else self.frames.of(expectation)[1]
        frame.createOrReplaceTempView(_VIEW)
        try:
            return self.frames.spark.sql(query.replace(BATCH, _VIEW))
        except AnalysisException:
            # The column itself is missing or of another type, which the outcome says already.
            return None
