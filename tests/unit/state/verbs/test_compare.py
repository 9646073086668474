"""What the page of a comparison shows of entries that differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from stateward.state.verbs.compare import _differences


def test_examples_stand_in_columns_and_a_long_value_is_cut() -> None:
    samples = [
        SimpleNamespace(key=f"k{number}", left="x" * 2000, right=None if number else "y")
        for number in range(5)
    ]
    difference = SimpleNamespace(variable="log", only_left=4, only_right=0, changed=1, samples=samples)

    counts, examples = _differences(cast(Any, SimpleNamespace(differences=(difference,))))

    assert list(counts.rows) == [("log", 4, 0, 1)]
    cut = "x" * 120 + "…"
    assert list(examples.rows) == [
        ("log", "k0", cut, "y"),
        ("log", "k1", cut, "not there"),
        ("log", "k2", cut, "not there"),
    ]
