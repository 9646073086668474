"""The dashboard, the rules and docs/metrics.md name metrics that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from stateward.contract.measures import MEASURES
from stateward.metrics.catalogue import FAMILIES
from stateward.rendering.page_address import METRICS

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "metrics.md").read_text()
DASHBOARD: dict[str, Any] = json.loads((DOCS / "metrics" / "dashboard.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((DOCS / "metrics" / "alerts.yaml").read_text())
BY_NAME = {family.name: family for family in FAMILIES}
NAME = re.compile(r"\bstateward_stream_\w+")
SELECTOR = re.compile(r"\b(stateward_stream_\w+)\{([^}]*)\}")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def texts(value: Any) -> Iterator[str]:
    """Every text in a document, however deep."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


def test_no_metric_is_named_that_does_not_exist() -> None:
    named = {name for text in (PAGE, *texts(DASHBOARD), *texts(ALERTS)) for name in NAME.findall(text)}
    assert named - set(BY_NAME) == set()


def test_series_are_chosen_by_labels_that_they_have() -> None:
    expressions = "\n".join([*texts(DASHBOARD), *texts(ALERTS)])
    for name, chosen in SELECTOR.findall(expressions):
        known = {*BY_NAME[name].labels, name}
        assert set(LABEL.findall(chosen)) <= known, f"{name} has {sorted(known)}"


def test_the_dashboard_shows_every_metric_but_those_that_are_for_rules_and_people() -> None:
    shown = {name for text in texts(DASHBOARD) for name in NAME.findall(text)}
    assert set(BY_NAME) - shown == {f"stateward_stream_{name}" for name in ("held", "epoch", "generation")}


def test_the_dashboard_takes_its_data_source_from_a_variable() -> None:
    assert {one["name"] for one in DASHBOARD["templating"]["list"]} == {"datasource", "stream"}
    shown = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    sources = {target["datasource"]["uid"] for panel in shown for target in panel["targets"]}
    assert sources | {panel["datasource"]["uid"] for panel in shown} == {"${datasource}"}
    assert "__inputs" not in DASHBOARD
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_each_rule_says_how_bad_it_is_and_what_to_do() -> None:
    [group] = ALERTS["groups"]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names)


def test_a_measure_above_its_limit_has_one_rule_of_each_level() -> None:
    """A rule of its own names the remedy in the runbook; the others are in the rule for all."""
    chosen: dict[str, set[str]] = {"warn": set(), "critical": set()}
    for rule in ALERTS["groups"][0]["rules"]:
        for name, selector in SELECTOR.findall(rule["expr"]):
            if name != "stateward_stream_breach":
                continue
            of = re.search(r'measure(=~|!~|=)"([^"]+)"', selector)
            named = set(of[2].split("|")) if of else set()
            measures = named if of and of[1] != "!~" else set(MEASURES) - named
            level = "critical" if 'level="critical"' in selector else "warn"
            assert not measures & chosen[level], rule["alert"]
            chosen[level] |= measures
    assert chosen == {"warn": set(MEASURES), "critical": set(MEASURES)}


def test_prometheus_looks_where_the_plugin_serves_them() -> None:
    scrape = yaml.safe_load((DOCS / "metrics" / "scrape.yaml").read_text())
    [job] = scrape["scrape_configs"]
    assert job["metrics_path"] == METRICS
    assert scrape["rule_files"] == ["alerts.yaml"]
