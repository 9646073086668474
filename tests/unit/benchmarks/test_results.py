"""Each line of results has the Python that made it."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.results import append_result


@pytest.mark.parametrize("options", ["'--enable-optimizations' '--with-lto'", None])
def test_a_result_says_how_its_python_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": options}.get)
    for number in range(2):
        append_result(tmp_path / "results.jsonl", {"run": number})
    found = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [one["run"] for one in found] == [0, 1]
    build = found[1]["python_build"]
    assert build["config_args"] == (options or "")
    assert Path(build["executable"]).samefile(sys.executable)
