"""A person's word that they have seen a table's failures, and their note: one small document per table."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec

from stateward.contract.storage import CorruptDocumentError, read_json, write_json

if TYPE_CHECKING:
    from stateward.pages.quality.history import Name
    from stateward.project.layout import Layout

MOST_CHARACTERS = 500
"""Longest note."""


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said about a table.

    Attributes:
        by: The user's name in Airflow.
        at: When, aware.
        note: Their words.
        failures: The expectations that failed when they wrote it.
    """

    by: str
    at: datetime
    note: Annotated[str, msgspec.Meta(max_length=MOST_CHARACTERS)] = ""
    failures: tuple[str, ...] = ()

    def covers(self, failing: frozenset[str]) -> bool:
        """Return whether everything that fails now failed then as well."""
        return bool(failing) and failing <= set(self.failures)


def read_acknowledgement(layout: Layout, name: Name) -> Acknowledgement | None:
    """Read what was last said about a table.

    Raises:
        ValueError: The document is no acknowledgement.
        OSError: The storage cannot be read.
    """
    uri = _uri(layout, name)
    try:
        document = read_json(uri)
        return None if document is None else msgspec.convert(document, Acknowledgement)
    except (CorruptDocumentError, msgspec.ValidationError) as error:
        raise ValueError(f"{uri}: {error}. Acknowledge the table again, which replaces it") from error


def write_acknowledgement(layout: Layout, name: Name, said: Acknowledgement) -> None:
    """Replace what was said about a table."""
    write_json(_uri(layout, name), msgspec.to_builtins(said))


def _uri(layout: Layout, name: Name) -> str:
    return f"{layout.quality_uri}/acknowledgements/{name.stream}.{name.table}.json"
