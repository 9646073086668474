"""Converts the rows of a table to initial states of a keyed stream. Runs in the workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple, get_type_hints

import msgspec

from stateward.runtime.api.initial_state import SeedRow, SeedRule
from stateward.runtime.api.key_filter import KeyFilter, takes
from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.ingest.packed_format import bucket_of
from stateward.state.reader.key_evaluator import KeyEvaluator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SeededRow(NamedTuple):
    """The result for one row: a state with its timer, or the reason why there is none.

    Attributes:
        bucket: Bucket of the key.
        key: The key; empty if the row has none.
        state: The state (`codec`).
        wake_ms: Time of its next timer (ms since 1970 UTC).
        wrong: Why the row cannot become a state; None if it can, or is skipped.
        skipped: Whether the stream's function skips the row.
    """

    bucket: int
    key: str
    state: bytes | None
    wake_ms: int | None
    wrong: str | None = None
    skipped: bool = False


@dataclass(frozen=True)
class SeedConverter:
    """Converts rows to states.

    Attributes:
        evaluator: The stream's logic and types.
        columns: The columns of the key.
        separator: Separator between several columns.
        seed: The stream's function; without one the columns have the names of the state's fields.
        buckets: Number of the stream's buckets.
        only: The stream's key filters.
    """

    evaluator: KeyEvaluator
    columns: tuple[str, ...]
    separator: str
    seed: SeedRule | None
    buckets: int
    only: tuple[KeyFilter, ...] = ()

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> list[SeededRow]:
        """Convert rows of the table."""
        codec = self.evaluator.codec()
        return [self._row(codec, {name: plain(value) for name, value in row.items()}) for row in rows]

    def _row(self, codec: Any, row: SeedRow) -> SeededRow:
        parts = [row[name] for name in self.columns]
        if any(part is None or part == "" for part in parts):
            return SeededRow(0, "", None, None, f"no key in {', '.join(self.columns)}")
        key = self.separator.join(map(str, parts))
        if not takes(self.only, key):
            return SeededRow(0, key, None, None, "its key belongs to another stream")
        try:
            state = self._state(key, row)
            if state is None:
                return SeededRow(0, key, None, None, skipped=True)
            # Encode and decode, so that a wrong type is found now and not in a batch.
            text = codec.encode(KeyState(self.evaluator.state_type(*state)))
            wake_ms = self.evaluator.wake_ms(key, codec.decode(text))
        except Exception as error:
            return SeededRow(0, key, None, None, _reason(error))
        return SeededRow(bucket_of(key, self.buckets), key, text, wake_ms)

    def _state(self, key: str, row: SeedRow) -> tuple[Any, ...] | None:
        if self.seed is not None:
            return self.seed(key, row)
        values = {}
        defaults = self.evaluator.state_type._field_defaults
        for name, kind in get_type_hints(self.evaluator.state_type).items():
            if name not in row or (row[name] is None and name in defaults):
                values[name] = defaults[name]  # `missing_columns` was empty
            else:
                values[name] = msgspec.convert(row[name], kind, strict=False)
        state: tuple[Any, ...] = self.evaluator.state_type(**values)
        return state


def missing_columns(state_type: Any, columns: Iterable[str]) -> list[str]:
    """The state's fields that have neither a column nor a default."""
    found = set(columns)
    return [name for name in state_type._fields if name not in found | state_type._field_defaults.keys()]


def _reason(error: Exception) -> str:
    """Why a row cannot become a state; only the error's name if its text may contain values of the row."""
    of_types = isinstance(error, msgspec.ValidationError) and str(error).startswith("Expected `")
    return f"{type(error).__name__}: {error}" if of_types else type(error).__name__


def plain(value: Any) -> Any:
    """Convert a value for the stream's function: times become milliseconds since 1970 UTC."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // (datetime.resolution * 1000)
    if isinstance(value, date):
        return plain(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, Decimal):
        return str(value)
    return value
