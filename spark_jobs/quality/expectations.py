"""Great Expectations: run a suite on a data frame, build its Data Docs. Only this and `page_view` know it."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Both are read while the library is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
os.environ.setdefault("TQDM_DISABLE", "1")

import great_expectations as gx
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context.types.base import DataContextConfig, ProgressBarsConfig
from great_expectations.data_context.types.resource_identifiers import (
    ExpectationSuiteIdentifier,
    ValidationResultIdentifier,
)
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.expectations.metadata_types import FailureSeverity

from spark_jobs.quality.suite import Expectation, Suite

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

_VIEWS = "spark_jobs.quality.page_view"
_SITE = "data_docs"
_PARTIAL_VALUES = 20


@dataclass(frozen=True)
class Outcome:
    """What became of one expectation.

    Attributes:
        expectation: the entry of the suite.
        success: whether it holds.
        observed: what was found, in words people can read.
        unexpected_count: rows that break it; None when it is about the whole table.
        unexpected_percent: those rows in percent of all rows with a value; None as above.
    """

    expectation: Expectation
    success: bool
    observed: str
    unexpected_count: int | None
    unexpected_percent: float | None


class Validator:
    """A file context of Great Expectations in one folder, with its Data Docs in another."""

    def __init__(self, context_dir: Path, docs_dir: Path, keep: int = 50) -> None:
        self._keep = keep
        self._docs_dir = docs_dir
        self._store_dir = context_dir / "validations"
        self._context: Any = gx.get_context(
            mode="file", context_root_dir=str(_context_folder(context_dir, docs_dir))
        )

    def run(
        self, suite: Suite, frame: DataFrame, label: str, run_name: str, run_time: datetime
    ) -> tuple[list[Outcome], str]:
        """Validate `frame` and write the page of this validation.

        Args:
            suite: what must hold.
            frame: the table at one version.
            label: how Data Docs call the data, such as `sessions@17`.
            run_name: names this validation in paths; letters, digits, `-`, `_` and `.` only.
            run_time: when it was run, UTC.

        Returns:
            One outcome per expectation in the suite's order, and the page's path relative to the docs folder.
        """
        definition = self._definition(suite, label)
        key = ValidationResultIdentifier(
            expectation_suite_identifier=ExpectationSuiteIdentifier(name=suite.name),
            run_id=RunIdentifier(run_name=run_name, run_time=run_time),
            batch_identifier=f"{definition.data_source.name}-{label}",
        )
        result = definition.run(
            batch_parameters={"dataframe": frame},
            result_format={"result_format": "SUMMARY", "partial_unexpected_count": _PARTIAL_VALUES},
            run_id=key.run_id,
        )
        by_name = {item.expectation_config.meta["name"]: item for item in result.results}
        outcomes = [_outcome(expectation, by_name[expectation.name]) for expectation in suite.expectations]
        return outcomes, self._build_page(key)

    def _definition(self, suite: Suite, label: str) -> Any:
        context = self._context
        source = context.data_sources.add_or_update_spark(suite.name)
        batch = source.add_dataframe_asset(label).add_batch_definition_whole_dataframe("pinned_version")
        stored = context.suites.add_or_update(gx.ExpectationSuite(name=suite.name))
        for expectation in suite.expectations:
            # Without it an expectation takes the place of another one of its type and column.
            stored.add_expectation_configuration(_configuration(expectation), match_type="success")
        stored.save()
        return context.validation_definitions.add_or_update(
            gx.ValidationDefinition(name=suite.name, data=batch, suite=stored)
        )

    def _build_page(self, key: ValidationResultIdentifier) -> str:
        self._prune(key.expectation_suite_identifier.name)
        # Only the new page and the suite's are rendered; the others are already there.
        self._context.build_data_docs(resource_identifiers=[key, key.expectation_suite_identifier])
        [site] = self._context.get_docs_sites_urls(resource_identifier=key)
        return str(Path(site["site_url"].removeprefix("file://")).relative_to(self._docs_dir))

    def _prune(self, suite: str) -> None:
        """Forget the oldest validations of a suite; the index page reads every one that is left."""
        runs = sorted((self._store_dir / suite).glob("*/*"), key=lambda path: path.name, reverse=True)
        for run in runs[self._keep :]:
            for folder in (run, self._docs_dir / "validations" / run.relative_to(self._store_dir)):
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(OSError):
                    folder.parent.rmdir()  # the run's name, unless it was tried again


def _configuration(expectation: Expectation) -> ExpectationConfiguration:
    return ExpectationConfiguration(
        type=expectation.type,
        kwargs=dict(expectation.kwargs),
        meta={"name": expectation.name},
        notes=[expectation.means, f"If it fails: {expectation.remedy}"],
        # A bare query says nothing to a reader of the report.
        description=expectation.means if expectation.type == "unexpected_rows_expectation" else None,
        severity=FailureSeverity(expectation.severity),
    )


def _outcome(expectation: Expectation, item: Any) -> Outcome:
    result = item.result or {}
    count = result.get("unexpected_count")
    if expectation.type == "unexpected_rows_expectation":
        count = result.get("observed_value")
    percent = result.get("unexpected_percent")
    return Outcome(
        expectation=expectation,
        success=bool(item.success),
        observed=_observed(item, result, count),
        unexpected_count=None if count is None else int(count),
        unexpected_percent=None if percent is None else float(percent),
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


def _context_folder(context_dir: Path, docs_dir: Path) -> Path:
    context_dir.mkdir(parents=True, exist_ok=True)
    config = DataContextConfig(
        config_version=4,
        expectations_store_name="expectations_store",
        validation_results_store_name="validation_results_store",
        checkpoint_store_name="checkpoint_store",
        stores={
            "expectations_store": _store("ExpectationsStore", "expectations"),
            "validation_results_store": _store("ValidationResultsStore", "validations"),
            "checkpoint_store": _store("CheckpointStore", "checkpoints"),
            # In memory, because it refers to the data frame of this run, which no later run can find.
            "validation_definition_store": {
                "class_name": "ValidationDefinitionStore",
                "store_backend": {"class_name": "InMemoryStoreBackend"},
            },
        },
        data_docs_sites={_SITE: _site(docs_dir)},
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    (context_dir / "great_expectations.yml").write_text(config.to_yaml_str(), encoding="utf-8")
    return context_dir


def _store(class_name: str, folder: str) -> dict[str, Any]:
    return {
        "class_name": class_name,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": f"{folder}/"},
    }


def _site(docs_dir: Path) -> dict[str, Any]:
    page = {"module_name": _VIEWS, "class_name": "OfflinePageView"}
    sections = {
        name: {"class_name": "DefaultSiteSectionBuilder", "source_store_name": store, "view": page}
        for name, store in (
            ("expectations", "expectations_store"),
            ("validations", "validation_results_store"),
        )
    }
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(docs_dir),
        },
        "site_section_builders": {**sections, "profiling": "None"},
        "site_index_builder": {
            "class_name": "DefaultSiteIndexBuilder",
            "view": {"module_name": _VIEWS, "class_name": "OfflineIndexView"},
        },
    }
