"""Great Expectations: evaluate a suite on data frames, build its Data Docs."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Both are read while the library is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
os.environ.setdefault("TQDM_DISABLE", "1")

import great_expectations as gx
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context.types.resource_identifiers import (
    ExpectationSuiteIdentifier,
    ValidationResultIdentifier,
)
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.expectations.metadata_types import FailureSeverity

from stateward.quality.suites.suite import Expectation, Suite
from stateward.quality.validation.context_folder import context_folder, memory_config, remove_less_masked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

_PARTIAL_VALUES = 20
# Great Expectations' own word.
_SEVERITY = {"warn": "warning"}


@dataclass(frozen=True)
class Prepared:
    """An expectation as it is evaluated.

    Attributes:
        expectation: the entry of the suite.
        type: of Great Expectations.
        kwargs: its arguments, with names of views in a query and with the table's history in a baseline.
        frame: name of the rows it is evaluated on.
        words: what its arguments are based on, as text; empty when they are the suite's own.
    """

    expectation: Expectation
    type: str
    kwargs: dict[str, Any]
    frame: str
    words: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one expectation.

    Attributes:
        expectation: the entry of the suite.
        success: whether it holds.
        observed: what was found, as text.
        unexpected_count: rows that break it; None when it is about the whole table.
        unexpected_percent: those rows in percent of all rows with a value; None as above.
        kwargs: the arguments it was evaluated with.
        partition: distribution of the values in its column; None for other types.
    """

    expectation: Expectation
    success: bool
    observed: str
    unexpected_count: int | None
    unexpected_percent: float | None
    kwargs: dict[str, Any]
    partition: dict[str, Any] | None = None


class Validator:
    """Evaluates suites, and keeps the results in a file context in one folder, with Data Docs in another."""

    def __init__(self, context_dir: Path, docs_dir: Path, keep: int = 50) -> None:
        self._keep = keep
        self._docs_dir = docs_dir
        self._context_dir = context_dir
        self._context: Any = None
        self._built: list[Any] = []
        remove_less_masked(context_dir, docs_dir)

    def run(
        self,
        suite: Suite,
        prepared: Sequence[Prepared],
        frames: Mapping[str, DataFrame],
        *,
        label: str,
        run_name: str,
        run_time: datetime,
    ) -> tuple[list[Outcome], str]:
        """Evaluate the expectations, each on its rows, and write the page of this validation.

        Args:
            suite: what must hold.
            prepared: its expectations.
            frames: the rows they are about, by name.
            label: how Data Docs call the data, such as `sessions_v17`.
            run_name: names this validation in paths; letters, digits, `-`, `_` and `.` only.
            run_time: when it was run, UTC.

        Returns:
            One outcome per expectation in the order of `prepared`, and the page's path relative to the docs
            folder.
        """
        # Great Expectations prints a line for each query that names a table other than the batch.
        with contextlib.redirect_stdout(io.StringIO()):
            return self._run(
                suite, prepared, frames, label, RunIdentifier(run_name=run_name, run_time=run_time)
            )

    def _run(
        self,
        suite: Suite,
        prepared: Sequence[Prepared],
        frames: Mapping[str, DataFrame],
        label: str,
        run_id: RunIdentifier,
    ) -> tuple[list[Outcome], str]:
        results = _evaluate(suite.name, prepared, frames, label)
        by_name = {
            item.expectation_config.meta["name"]: item for result in results for item in result.results
        }
        items = [by_name[one.expectation.name] for one in prepared]
        key = ValidationResultIdentifier(
            expectation_suite_identifier=ExpectationSuiteIdentifier(name=suite.name),
            run_id=run_id,
            batch_identifier=f"{suite.name}-{label}",
        )
        # After the evaluation: a ValidationDefinition stores its result in the context that was created last.
        self._context = gx.get_context(
            mode="file", context_root_dir=str(context_folder(self._context_dir, self._docs_dir))
        )
        self._store(suite, prepared, key, _merged(results[0], items, key))
        outcomes = [_outcome(one, item) for one, item in zip(prepared, items, strict=True)]
        return outcomes, self._build_page(key)

    def _store(self, suite: Suite, prepared: Sequence[Prepared], key: Any, result: Any) -> None:
        # As it was evaluated: the suite's page shows what each expectation means, with its numbers.
        self._context.suites.add_or_update(_suite(suite.name, prepared))
        self._context.validation_results_store.store_validation_results(
            suite_validation_result=result,
            suite_validation_result_identifier=key,
            expectation_suite_identifier=key.expectation_suite_identifier,
        )

    def _build_page(self, key: ValidationResultIdentifier) -> str:
        self._prune(key.expectation_suite_identifier.name)
        self._built = [key, key.expectation_suite_identifier]
        self.build_pages()
        [site] = self._context.get_docs_sites_urls(resource_identifier=key)
        return str(Path(site["site_url"].removeprefix("file://")).relative_to(self._docs_dir))

    def build_pages(self) -> None:
        """Build the pages of the last validation and its suite, and the index of all in the folder."""
        # The other pages are already there.
        self._context.build_data_docs(resource_identifiers=self._built)

    def _prune(self, suite: str) -> None:
        """Delete the oldest validations of a suite; the index page reads all that are left."""
        stored = self._context_dir / "validations"
        runs = sorted((stored / suite).glob("*/*"), key=lambda path: path.name, reverse=True)
        for run in runs[self._keep :]:
            for folder in (run, self._docs_dir / "validations" / run.relative_to(stored)):
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(OSError):
                    folder.parent.rmdir()  # the run's name, unless it was tried again


def _evaluate(
    suite: str, prepared: Sequence[Prepared], frames: Mapping[str, DataFrame], label: str
) -> list[Any]:
    """Return a result for each frame. They stay in memory, because one page shows all of them."""
    context: Any = gx.get_context(mode="ephemeral", project_config=memory_config())
    source = context.data_sources.add_spark(suite)
    results = []
    for name, frame in frames.items():
        asset = source.add_dataframe_asset(f"{label}_{name}")
        about = [one for one in prepared if one.frame == name]
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(
                name=asset.name,
                data=asset.add_batch_definition_whole_dataframe("pinned_version"),
                suite=context.suites.add(_suite(f"{suite}_{name}", about)),
            )
        )
        result_format = {"result_format": "SUMMARY", "partial_unexpected_count": _PARTIAL_VALUES}
        results.append(definition.run(batch_parameters={"dataframe": frame}, result_format=result_format))
    return results


def _suite(name: str, prepared: Sequence[Prepared]) -> Any:
    # All at once: adding one would replace another with the same type and arguments.
    made: Any = gx.ExpectationSuite(name=name, expectations=[_configuration(one) for one in prepared])
    known = {expectation.meta["name"] for expectation in made.expectations}
    # Great Expectations logs the entries that it cannot use, and continues without them.
    if unknown := [one.expectation.name for one in prepared if one.expectation.name not in known]:
        raise ValueError(
            f"suite {name}: Great Expectations does not accept {unknown}. Correct their type and kwargs."
        )
    return made


def _merged(first: Any, items: list[Any], key: Any) -> Any:
    """One result of all expectations on all frames, as a run of the library on one batch makes it."""
    held = sum(bool(item.success) for item in items)
    meta = {
        **first.meta,
        "run_id": key.run_id,
        "validation_time": key.run_id.run_time,
        "batch_parameters": None,
        "validation_id": None,
        "checkpoint_id": None,
    }
    return ExpectationSuiteValidationResult(
        results=items,
        success=held == len(items),
        suite_name=key.expectation_suite_identifier.name,
        statistics={
            "evaluated_expectations": len(items),
            "successful_expectations": held,
            "unsuccessful_expectations": len(items) - held,
            "success_percent": 100 * held / len(items),
        },
        meta=meta,
        batch_id=first.batch_id,
    )


def _configuration(prepared: Prepared) -> ExpectationConfiguration:
    expectation = prepared.expectation
    # In the report, a query alone explains nothing, and neither do the numbers of a baseline.
    description = None
    if expectation.query is not None:
        description = expectation.means
    elif prepared.words:
        description = f"{expectation.means} ({prepared.words})"
    return ExpectationConfiguration(
        type=prepared.type,
        kwargs=dict(prepared.kwargs),
        meta={"name": expectation.name},
        notes=[expectation.means, f"If it fails: {expectation.remedy}"],
        description=description,
        severity=FailureSeverity(_SEVERITY.get(expectation.severity, expectation.severity)),
    )


def _outcome(prepared: Prepared, item: Any) -> Outcome:
    result = item.result or {}
    count = result.get("unexpected_count")
    if prepared.expectation.query is not None:
        count = result.get("observed_value")
    percent = result.get("unexpected_percent")
    observed = _observed(item, result, count)
    return Outcome(
        expectation=prepared.expectation,
        success=bool(item.success),
        observed=f"{observed} ({prepared.words})" if prepared.words else observed,
        unexpected_count=None if count is None else int(count),
        unexpected_percent=None if percent is None else float(percent),
        kwargs=prepared.kwargs,
        partition=(result.get("details") or {}).get("observed_partition"),
    )


def _observed(item: Any, result: dict[str, Any], count: int | None) -> str:
    if message := _exception(item.exception_info or {}):
        return f"could not be evaluated: {message}"
    if count is None:
        return str(result.get("observed_value", ""))
    if count == 0:
        return "no unexpected rows"
    values = list(dict.fromkeys(str(value) for value in result.get("partial_unexpected_list", [])))[:5]
    return f"{count} unexpected rows" + (f", such as {', '.join(values)}" if values else "")


def _exception(info: dict[str, Any]) -> str | None:
    # Either one record, or one per metric that failed.
    records = [info] if "raised_exception" in info else list(info.values())
    raised = [record["exception_message"] for record in records if record.get("raised_exception")]
    return str(raised[0]) if raised else None
