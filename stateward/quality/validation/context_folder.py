"""The contexts of Great Expectations: one in memory, and one in a folder with the site of its Data Docs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)

_VIEWS = "stateward.quality.reports.page_view"
_SITE = "data_docs"
_MASKS = "personal columns, and columns derived from them"
"""What is masked in the pages; change it whenever more is masked."""


def context_folder(context_dir: Path, docs_dir: Path) -> Path:
    """Write the configuration of a file context, whose site is in `docs_dir`; return its folder."""
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
            # In memory, because there are none.
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


def memory_config() -> DataContextConfig:
    """Return the configuration of a context in memory."""
    return DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )


def remove_less_masked(context_dir: Path, docs_dir: Path) -> None:
    """Remove the validations of a release that masked less, with their pages.

    Their results stay in the table `quality_results`.
    """
    marker = context_dir / "masks"
    if marker.exists() and marker.read_text(encoding="utf-8") == _MASKS:
        return
    for folder in (context_dir, docs_dir):
        shutil.rmtree(folder / "validations", ignore_errors=True)
    marker.write_text(_MASKS, encoding="utf-8")


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
