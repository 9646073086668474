"""Each line of results has the Python that made it."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.results import append_result


@pytest.mark.parametrize(
    ("options", "optimized"),
    [
        ("'--enable-optimizations' '--with-lto'", True),
        ("'--enable-optimizations'", False),
        ("'--enable-shared'", False),
        (None, False),
    ],
)
def test_a_result_says_how_its_python_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, optimized: bool
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": options}.get)
    for number in range(2):
        append_result(tmp_path / "results.jsonl", {"run": number})
    found = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [one["run"] for one in found] == [0, 1]
    build = found[1]["python_build"]
    assert (build["config_args"], build["optimized"]) == (options or "", optimized)
