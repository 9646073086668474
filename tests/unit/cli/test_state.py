"""`stateward state`: what a person gives to a verb."""

from __future__ import annotations

import io

import pytest

from stateward.cli.state import _typed
from stateward.control.jobs.verbs import verb_of


def test_a_hyphen_stands_for_a_line_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a person's name is in no shell history."""
    monkeypatch.setattr("sys.stdin", io.StringIO("ann smith\nmore\n"))
    assert _typed(verb_of("forget"), {"key": "-"}) == {"key": "ann smith"}
    assert _typed(verb_of("forget"), {"key": "ann"}) == {}
    assert _typed(verb_of("explain"), {"key": "-"}) == {}, "only what is erased in the end"
