"""A hook of mkdocs: adds the pages of the reference, and fills in the tables that other pages have.

Such a page has a line `<!-- generated: NAME -->` where the table of that name is to be.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from proof.site import reference, sizes, stream_yaml, versions

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

MARK = re.compile(r"^<!-- generated: (?P<name>[a-z ]+) -->$", re.MULTILINE)

PAGES: dict[str, Callable[[], str]] = {
    "settings": reference.settings,
    "commands": reference.commands,
    "api": reference.api,
}
"""Pages of the folder `reference`, each by its name."""

TABLES: dict[str, Callable[[], str]] = {
    "fields of the stream yaml": stream_yaml.fields,
    "limits": reference.limits,
    "metrics": reference.metrics,
    "sizes": sizes.sizes,
    "versions": versions.versions,
}
"""What stands in place of a line of that name."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the version into the head of every page."""
    config.site_name = f"{config.site_name} {versions.version()}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for name, text in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the tables."""
    return filled(markdown)


def filled(markdown: str) -> str:
    """Return the text of a page with its tables."""
    return MARK.sub(lambda found: TABLES[found["name"]](), markdown)
