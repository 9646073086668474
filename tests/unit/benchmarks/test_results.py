"""The files of results: of which Python and commit each line is, and which lines are published."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.results import append_result, publish


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


def test_results_of_a_commit_are_published_once_after_those_of_other_machines(tmp_path: Path) -> None:
    own, published = tmp_path / "bench", tmp_path / "published"
    own.mkdir()
    published.mkdir()
    (published / "idle.jsonl").write_text('{"commit": "0123abcd", "cpu": 1}\n')
    for commit in ("4567abcd", "89ababcd-dirty"):
        append_result(own / "idle.jsonl", {"commit": commit})
    append_result(own / "stores.jsonl", {"case": "one"})
    for _ in range(2):
        publish(own, published)
    found = {
        file.name: [json.loads(line).get("commit") for line in file.read_text().splitlines()]
        for file in published.iterdir()
    }
    assert found == {"idle.jsonl": ["0123abcd", "4567abcd"], "stores.jsonl": [None]}
