"""All pages of an installation, with Data Docs as a validation builds them, by pandas in place of Spark."""

from __future__ import annotations

import contextlib
import io
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from stateward.project.layout import Layout
from tests.support.pages.sample_quality import week
from tests.support.pages.sample_streams import installation, write

RUN = "user_sessions_v1-2_manual__1_1"


def build_docs(docs_dir: Path, context_dir: Path, table: str = "sessions") -> str:
    """Build the index, the page of the suite, and the report of one validation with a failure.

    Returns:
        The path of the report below the folder of the site.
    """
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    from stateward.quality.validation.context_folder import context_folder

    # First of all: it keeps Great Expectations from sending statistics to its makers.
    import_module("stateward.quality.validation.expectations")
    gx: Any = import_module("great_expectations")

    with contextlib.redirect_stdout(io.StringIO()):
        context = gx.get_context(mode="file", context_root_dir=str(context_folder(context_dir, docs_dir)))
        frame = pd.DataFrame({"kind": ["a", "b"]})
        asset = context.data_sources.add_pandas("frames").add_dataframe_asset(table)
        batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
        known = gx.expectations.ExpectColumnValuesToBeInSet(column="kind", value_set=["a"])
        suite = context.suites.add(gx.ExpectationSuite(name=table, expectations=[known]))
        key = ValidationResultIdentifier(
            expectation_suite_identifier=ExpectationSuiteIdentifier(name=table),
            run_id=RunIdentifier(run_name=RUN, run_time=datetime(2026, 1, 1, tzinfo=UTC)),
            batch_identifier=f"{table}-whole",
        )
        context.validation_results_store.store_validation_results(
            suite_validation_result=batch.validate(suite),
            suite_validation_result_identifier=key,
            expectation_suite_identifier=key.expectation_suite_identifier,
        )
        context.build_data_docs(resource_identifiers=[key, key.expectation_suite_identifier])
        [site] = context.get_docs_sites_urls(resource_identifier=key)
    return str(Path(site["site_url"].removeprefix("file://")).relative_to(docs_dir))


def write_site(home: Path) -> None:
    """Write streams, validations of a week, Data Docs and pages of operations below `STATEWARD_HOME`."""
    now = datetime.now(UTC)
    written = installation(home, now)
    write(written, "failed")
    week(written.settings, now)
    build_docs(Path(Layout.of(written.settings).data_docs_uri.removeprefix("file://")), home / "context")
