"""Rows held back: found by a critical expectation, and not cleared by a newer validation. Pure.

A validation decides about an earlier finding if it is of the same suite, newer, and covers all versions that
the earlier one did: it puts into quarantine what it finds in them. It decides nothing about an expectation
that it could not evaluate, or whose rows it could not identify.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CRITICAL = "critical"

COVERS = """
    decided.stream = entry.stream AND decided.`table` = entry.`table` AND decided.suite = entry.suite
    AND decided.validated_at > entry.quarantined_at AND CASE
      WHEN decided.table_id = entry.table_id THEN
        (decided.from_version <= entry.from_version OR NOT decided.is_range)
        AND decided.table_version >= entry.table_version
      ELSE decided.from_version = 0 OR NOT decided.is_range END
"""
"""`covers`, as SQL."""


def quarantined_sql(quarantine: str, validations: str, stream: str, table: str) -> str:
    """Return `quarantined` as SQL.

    Args:
        quarantine: the table `quarantine`, as SQL names it.
        validations: the table `quality_validations`, in the same way.
        stream: the stream.
        table: its table.
    """
    mine = f"stream = {_literal(stream)} AND `table` = {_literal(table)}"
    return f"""
      SELECT DISTINCT row_hash FROM (
        SELECT entry.row_hash
        FROM (SELECT * FROM {quarantine} WHERE {mine}
              AND severity = '{CRITICAL}' AND row_hash IS NOT NULL) entry
        LEFT JOIN (SELECT * FROM {validations} WHERE {mine}) decided ON {COVERS}
        LEFT JOIN (SELECT run_id, name FROM {quarantine} WHERE {mine} AND row_hash IS NULL) undecided
          ON undecided.run_id = decided.run_id AND undecided.name = entry.name
        GROUP BY entry.run_id, entry.name, entry.row_hash
        HAVING count_if(decided.run_id IS NOT NULL AND undecided.run_id IS NULL) = 0)
    """


def quarantined(entries: Iterable[Mapping[str, Any]], validations: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the hashes of the rows that are held back.

    Args:
        entries: rows of `quarantine`, of one table.
        validations: rows of `quality_validations`, of the same table.
    """
    known, done = list(entries), list(validations)
    undecided = {(entry["run_id"], entry["name"]) for entry in known if entry["row_hash"] is None}
    return {
        entry["row_hash"]
        for entry in known
        if entry["severity"] == CRITICAL
        and entry["row_hash"] is not None
        and not any(covers(one, entry) and (one["run_id"], entry["name"]) not in undecided for one in done)
    }


def covers(decided: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether a validation covers every version in which a row was found."""
    if decided["suite"] != entry["suite"] or decided["validated_at"] <= entry["quarantined_at"]:
        return False
    is_whole = not decided["is_range"]
    if decided["table_id"] != entry["table_id"]:
        return is_whole or bool(decided["from_version"] == 0)
    begins = is_whole or decided["from_version"] <= entry["from_version"]
    return bool(begins and decided["table_version"] >= entry["table_version"])


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
