"""Validations tell people of a table: once when it breaks, once when it is in order again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateward.airflow.compat import AirflowFailException
from stateward.alerts.incident_document import incidents_uri
from stateward.project.layout import Layout
from tests.airflow.alerts.test_notifications import HERE, JSON_LINES
from tests.airflow.conftest import STREAM
from tests.airflow.dags.test_quality import (
    BROKEN,
    PASSED,
    WARNED,
    context,
    layout,
    make_operator,
    make_table,
    submit,
    write_results,
)

pytestmark = pytest.mark.airflow
__all__ = ["layout", "submit"]


class Validations:
    """Validations of one table, each a run of its own."""

    def __init__(self, layout: Layout, submit: list[Any], messages: Path) -> None:
        self._layout, self._submit, self._messages = layout, submit, messages
        self._count = 0
        make_table(layout)

    def run(self, *found: dict[str, Any], **params: Any) -> None:
        self._count += 1
        given = context(**params)
        given["ti"].run_id = f"manual__{self._count}"
        run_id = f"quality_{STREAM}/manual__{self._count}/1"
        write_results(self._layout, *({**row, "run_id": run_id} for row in found))
        self._submit.clear()
        if any(row is BROKEN for row in found):
            with pytest.raises(AirflowFailException):
                make_operator().execute(given)
        else:
            make_operator().execute(given)

    def sent(self) -> list[tuple[str, str]]:
        lines = self._messages.read_text().splitlines() if self._messages.exists() else []
        return [(one["event"], one["topic"]) for one in map(json.loads, lines)]


@pytest.fixture
def validations(
    layout: Layout, submit: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Validations:
    monkeypatch.setenv("STATEWARD_NOTIFIERS", str(tmp_path / "notifiers.yaml"))
    messages = tmp_path / "messages"
    entry = f"- class: {JSON_LINES}\n  level: warn\n  kwargs: {{path: {messages}}}\n"
    (tmp_path / "notifiers.yaml").write_text(entry)
    return Validations(layout, submit, messages)


def test_a_table_that_breaks_is_told_once_and_once_when_it_is_in_order(validations: Validations) -> None:
    validations.run(PASSED)
    assert validations.sent() == []
    validations.run(PASSED, BROKEN)
    validations.run(PASSED, BROKEN, WARNED)
    assert validations.sent() == [("opened", "quality"), ("opened", "quality_warn")]
    validations.run(PASSED, WARNED)
    validations.run(PASSED)
    assert validations.sent()[2:] == [("resolved", "quality"), ("resolved", "quality_warn")]


def test_a_look_at_the_past_says_nothing_of_now(validations: Validations) -> None:
    validations.run(BROKEN, table="sessions", from_version=3, to_version=7)
    assert validations.sent() == []
    validations.run(BROKEN)
    validations.run(PASSED, table="sessions", from_version=1, to_version=2)
    assert validations.sent() == [("opened", "quality")]
    validations.run(PASSED, table="sessions", from_version=3)
    assert validations.sent()[1:] == [("resolved", "quality")]


def test_one_that_refuses_keeps_the_verdict_waiting_and_changes_nothing_of_it(
    validations: Validations, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver answers at the second attempt, which the test makes due at once."""
    with (tmp_path / "notifiers.yaml").open("a") as file:
        file.write(f"- class: {HERE}.Refusing\n")
    document = Path(incidents_uri(layout, f"{STREAM}.sessions").removeprefix("file://"))
    waited: list[float] = []

    def no_more_refusing(seconds: float) -> None:
        waited.append(seconds)
        assert "Refusing" in document.read_text()
        lines = (tmp_path / "notifiers.yaml").read_text().partition(f"- class: {HERE}.Refusing")[0]
        (tmp_path / "notifiers.yaml").write_text(
            f"{lines}- class: {JSON_LINES}\n  name: Refusing\n  kwargs: {{path: {tmp_path}/second}}\n"
        )
        kept = json.loads(document.read_text())
        for outgoing in kept["outbox"]:
            for delivery in outgoing["deliveries"]:
                delivery["due"] = "2026-01-01T00:00:00Z"
        document.write_text(json.dumps(kept))

    monkeypatch.setattr("time.sleep", no_more_refusing)
    validations.run(BROKEN)
    assert len(waited) == 1
    assert validations.sent() == [("opened", "quality")], "no message is sent twice"
    assert (tmp_path / "second").read_text().count("\n") == 1
