"""From the outcomes of a validation to the rows in quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateward.contract.table_names import QUARANTINE
from stateward.quality.quarantine.quarantine import Facts, Failure, keep
from stateward.quality.quarantine.row_tracing import origins_of

if TYPE_CHECKING:
    from stateward.quality.privacy.masked_frames import Privacy
    from stateward.quality.validation.validated import Validated


def hold_back(done: Validated, privacy: Privacy, results_uri: str) -> None:
    """Put the rows that break expectations into quarantine.

    To be called before the validation is on record: then one that dies in between has held back too much,
    until the next one of its versions, and never too little.

    Args:
        done: the validation, with its rows as they are.
        privacy: how they are masked.
        results_uri: the table `quality_results`, beside which the quarantine lies.
    """
    frames, validation = done.frames, done.validation
    failed = [outcome for outcome in done.outcomes if not outcome.success]
    for outcome in failed:
        # Queries name views, and those there are now show masked rows.
        frames.resolve(outcome.expectation)
    tables_uri = results_uri.rstrip("/").rpartition("/")[0]
    facts = Facts(
        stream=validation.stream,
        table=validation.table,
        table_id=validation.table_id,
        from_version=validation.from_version if frames.is_range else 0,
        version=validation.version,
        run_id=validation.run_id,
        suite=validation.suite,
        validated_at=validation.validated_at,
        personal=privacy.personal,
    )
    failures = [
        Failure(
            name=outcome.expectation.name,
            expectation=outcome.expectation.type,
            severity=outcome.expectation.severity,
            rows=done.breaking_frame(outcome),
        )
        for outcome in failed
    ]
    origins = origins_of(validation.stream, validation.table, tables_uri.rpartition("/")[0], frames)
    keep(f"{tables_uri}/{QUARANTINE}", facts, failures, frames.table, veil=privacy.veil, origins=origins)
