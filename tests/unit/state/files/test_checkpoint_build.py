"""A checkpoint in the making: what is in its folder meanwhile, and what its steps took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateward.contract import storage
from stateward.runtime.checkpoint.generations import UNFINISHED
from stateward.state.files.checkpoint_build import Steps, unfinished


@pytest.fixture(params=["file", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"file://{tmp_path}/target" if request.param == "file" else f"memory://{tmp_path.name}/target"


def test_a_target_is_marked_until_it_is_made(target: str) -> None:
    storage.write_text(f"{target}/offsets/7", "of an attempt that died")
    with unfinished(target, {"source": "g0001", "partitions": 3}):
        assert storage.list_names(target) == [UNFINISHED]
        assert storage.read_json(f"{target}/{UNFINISHED}") == {"source": "g0001", "partitions": 3}
        storage.write_text(f"{target}/metadata", "{}")
    assert storage.list_names(target) == ["metadata"]


def test_a_target_that_could_not_be_made_stays_marked(target: str) -> None:
    with pytest.raises(OSError, match="no space"), unfinished(target, {"source": "g0001"}):
        storage.write_text(f"{target}/metadata", "{}")
        raise OSError("no space")
    assert sorted(storage.list_names(target)) == [UNFINISHED, "metadata"]


def test_a_step_says_what_it_has_added_to_the_target(target: str) -> None:
    steps = Steps(target)
    with steps.timed("digest"):
        pass
    with steps.timed("copy"):
        storage.write_text(f"{target}/metadata", "12345")
    with pytest.raises(OSError, match="killed"), steps.timed("repartition"):
        raise OSError("killed")
    with steps.timed("prove"):
        storage.write_text(f"{target}/offsets/1", json.dumps("x" * 8))
    assert [(step.name, step.bytes_written) for step in steps.done] == [
        ("digest", 0),
        ("copy", 5),
        ("prove", 10),
    ]
    assert all(step.seconds >= 0 for step in steps.done)
