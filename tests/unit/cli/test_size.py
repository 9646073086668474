"""`stateward size`: its tables and its JSON."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from stateward.cli.main import app

ARGUMENTS = ["size", "--events-per-s", "40000", "--keys", "1000000", "--state-bytes", "195"]


def test_the_json_has_what_the_tables_have() -> None:
    shown = CliRunner().invoke(app, ARGUMENTS, env={"COLUMNS": "200"})
    found = json.loads(CliRunner().invoke(app, [*ARGUMENTS, "--json"]).output)
    assert shown.exit_code == 0
    assert f"{found['executors']} of {found['cores']} cores" in shown.output
    for limit in found["limits"]:
        assert limit["part"] in shown.output
        assert limit["remedy"] in shown.output


def test_a_part_that_never_gives_way_has_no_rate() -> None:
    arguments = [*ARGUMENTS, "--rows-per-event", "0"]
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert "no rate" in shown.output
    assert found["limits"][-1]["events_per_s"] is None
