"""What the site says of fields, limits and metrics is what the code has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from proof.site import hook, reference, stream_yaml
from stateward.contract.measures import MEASURES
from stateward.metrics.catalogue import FAMILIES
from stateward.project.durations import parse_duration
from stateward.project.settings import CHECKOUT
from stateward.project.spec import StreamSpec
from stateward.project.spec_health import HealthLimits

PAGES = sorted((CHECKOUT / "docs").rglob("*.md"))
REQUIRED: dict[str, Any] = {
    "stream": "small",
    "description": "A stream.",
    "owner": "ann",
    "source": {"topic": "events"},
    "event_time": {"allowed_lateness": "1m"},
    "tables": ["results"],
}
OPTIONAL: dict[str, Any] = {
    "quality": {"tables": ["results"]},
    "kafka_sink": {"topics": {"results": "rows"}},
    "state_export": {"schedule": "0 5 * * *"},
    "lookups": {"sites": {"table": "sites"}},
}


def cells(table: str) -> Iterator[list[str]]:
    """The cells of each line of a table, or of several."""
    for line in table.splitlines():
        if line.startswith("| `") and not line.startswith("| `limits.`"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def paths(model: type[BaseModel], at: str = "") -> Iterator[str]:
    """Each field of a model, and those of its sections."""
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        parts = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if f"{at}{name}" in stream_yaml.ELSEWHERE:
            continue
        if parts:
            yield from paths(parts[0], f"{at}{name}." if at or name != "lookups" else f"{name}.<name>.")
        else:
            yield f"{at}{name}"


def test_each_mark_is_of_a_table_and_each_table_is_on_one_page() -> None:
    marks = [found["name"] for page in PAGES for found in hook.MARK.finditer(page.read_text())]
    assert sorted(marks) == sorted(hook.TABLES)


def test_a_line_that_only_looks_like_a_mark_is_left_alone() -> None:
    text = "see `<!-- generated: metrics -->`\n"
    assert hook.filled(text) == text
    assert hook.filled("<!-- generated: metrics -->\n") == f"{reference.metrics()}\n"


def test_every_field_of_the_yaml_is_in_the_tables_once() -> None:
    found = [row[0].strip("`") for row in cells(stream_yaml.fields())]
    assert sorted(found) == sorted(paths(StreamSpec))


def test_every_field_has_a_type_and_a_meaning() -> None:
    for field, kind, _, meaning in cells(stream_yaml.fields()):
        assert kind and meaning, field


def test_the_defaults_in_the_tables_are_those_of_a_yaml_that_names_none() -> None:
    document: dict[str, Any] = yaml.safe_load(yaml.safe_dump({**REQUIRED, **OPTIONAL}))
    plain = StreamSpec.model_validate(yaml.safe_load(yaml.safe_dump(document)))
    for path, _, default, _ in cells(stream_yaml.fields()):
        if default != "must be set" and path != "`source.topic`":
            *sections, name = path.strip("`").replace("<name>", "sites").split(".")
            at = document
            for section in sections:
                at = at.setdefault(section, {})
            at[name] = _value(default.strip("`"))
    assert StreamSpec.model_validate(document) == plain
    assert document["lease"]["ttl"] == "20s" and document["quality"]["schedule"] == "0 3 * * *"


def _value(text: str) -> object:
    # A time is text in the YAML of a stream, but YAML has a type for it.
    return text if re.match(r"\d{4}-", text) else yaml.safe_load(text)


def test_the_limits_are_those_of_the_yaml() -> None:
    found = {row[0].strip("`"): row[-2:] for row in cells(reference.limits())}
    limits = HealthLimits()
    assert list(found) == list(MEASURES)
    for name, levels in found.items():
        limit = getattr(limits, name)
        assert [_limit(text, limit.warn) for text in levels] == [limit.warn, limit.critical]


def _limit(text: str, like: object) -> object:
    if text == "–":
        return None
    return parse_duration(text) if isinstance(like, timedelta) else float(text.replace(",", ""))


def test_the_metrics_are_those_that_are_served() -> None:
    found = list(cells(reference.metrics()))
    assert [row[0].strip("`") for row in found] == [family.name for family in FAMILIES]
    for family, (_, kind, labels, meaning) in zip(FAMILIES, found, strict=True):
        assert (kind, re.findall(r"`(\w+)`", labels), meaning) == (
            family.kind,
            list(family.labels),
            family.help,
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_copy_of_a_generated_table(page: Path) -> None:
    for table in (reference.metrics(), reference.limits()):
        rows = {line for line in table.splitlines() if line.startswith("| `")}
        assert not rows & set(page.read_text().splitlines())
