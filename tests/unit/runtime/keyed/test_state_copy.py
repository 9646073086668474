"""The copy of states: sorted runs of a bucket, and the files of a partition."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.runtime.keyed import bucket_copy, sorted_run
from stateward.runtime.keyed.bucket_copy import BucketCopy
from stateward.runtime.keyed.log_index import Chunks
from stateward.runtime.keyed.sorted_run import CachedState
from stateward.runtime.keyed.state_cache import StateCache
from stateward.testing.bucket_bench import close_copies

CHECKPOINT = "file:///checkpoints/s/g0001"
KEYS = ["", "a", "b", "c", "d", "ключ", "x\x00y", "k" * 600]
Model = dict[str, CachedState]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_copies()


def state(number: int, due_ms: int = 0) -> CachedState:
    return CachedState(number, due_ms, 10, b"state %d" % number)


def few_hashes(keys: list[str]) -> sorted_run.Hashes:
    return np.array([len(key) % 2 for key in keys], dtype=np.uint64)


changes = st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(1, 30), min_size=1)


@pytest.mark.parametrize("small", [0, 4, bucket_copy.SMALL])
@pytest.mark.parametrize("hashed", ["as they are", "many alike"])
@settings(deadline=None)
@given(calls=st.lists(st.tuples(changes, st.integers(0, 5)), max_size=12))
def test_a_bucket_has_what_a_dictionary_has(
    hashed: str, small: int, calls: list[tuple[dict[str, int | None], int]]
) -> None:
    copy, model, now_ms = BucketCopy(0, Chunks()), Model(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_copy, "SMALL", small)
        if hashed == "many alike":
            patch.setattr(sorted_run, "_hashes", few_hashes)
        for number, (changed, passed_ms) in enumerate(calls):
            now_ms += passed_ms
            expected = {key: kept for key, kept in model.items() if kept.due_ms <= now_ms}
            due = copy.due(now_ms, changed.keys())
            assert due == {key: kept for key, kept in expected.items() if key not in changed}
            new = {
                key: None if after is None else state(number, now_ms + after)
                for key, after in changed.items()
            }
            new |= {key: state(number, now_ms + 7) for key in due}
            copy.add(new)
            copy.chunks.next_write += 1
            model = {key: kept for key, kept in (model | new).items() if kept is not None}
            assert copy.find(KEYS) == dict(copy.items()) == model
            earliest = min((kept.due_ms for kept in model.values()), default=None)
            assert earliest is None or now_ms < (copy.next_due() or 0) <= earliest


def test_few_runs_are_left_of_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_copy, "SMALL", 0)
    copy = BucketCopy(0, Chunks())
    for number in range(300):
        copy.add({f"k{number * 7 % 200}": state(number), f"k{number}": None})
        copy.chunks.next_write += 1
        assert len(copy.levels) <= 10
    copy.add({f"k{number}": None for number in range(300)})
    copy.add({f"k{number}": None for number in range(300)})
    assert copy.levels == [], "of removed keys nothing is left"


def used(tmp_path: Path, changed: dict[int, dict[str, CachedState | None]]) -> Path:
    """Change buckets as a task does; returns the folder of the partition."""
    cache = StateCache(str(tmp_path), CHECKPOINT, 0)
    for number, states in changed.items():
        cache.bucket(number).add(states)
    cache.commit()
    return cache._folder


def found(tmp_path: Path, number: int) -> Model:
    cache = StateCache(str(tmp_path), CHECKPOINT, 0)
    states = dict(cache.bucket(number).items())
    cache.abort()
    return states


def test_files_that_are_not_used_go_and_those_that_hardly_are_get_written_again(tmp_path: Path) -> None:
    many = {f"k{number}": state(number) for number in range(1000)}
    often, seldom = (1, 5), 2  # the former merge runs of equal sizes
    used(tmp_path, {**{number: dict(many) for number in often}, seldom: {"a": state(1)}})
    for _ in range(3):
        folder = used(tmp_path, {number: dict(many) for number in often})
        assert len([file for file in folder.iterdir() if file.name not in {"index", "lock"}]) == 1
    assert found(tmp_path, seldom) == {"a": state(1)}
    used(tmp_path, {number: dict.fromkeys(["a", *many]) for number in (*often, seldom)})
    assert sorted(file.name for file in folder.iterdir()) == ["index", "lock"]
    assert [found(tmp_path, number) for number in (*often, seldom)] == [{}, {}, {}]


def test_what_a_killed_worker_has_left_is_removed(tmp_path: Path) -> None:
    folder = used(tmp_path, {0: {"a": state(1)}})
    (folder / "0123456789abcdef").write_bytes(b"half a file")
    (folder / "index.new").write_bytes(b"half an index")
    assert found(tmp_path, 0) == {"a": state(1)}
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("lost", ["file", "half the file", "index", "half the index", "folder"])
def test_a_copy_of_which_something_was_removed_has_no_bucket(tmp_path: Path, lost: str) -> None:
    many = {f"k{number}": state(number) for number in range(1000)}
    folder = used(tmp_path, {0: {"a": state(1)}, 1: dict(many)})
    close_copies()
    (file,) = [file for file in folder.iterdir() if file.name not in {"index", "lock"}]
    target = {"file": file, "index": folder / "index", "folder": folder}[lost.removeprefix("half the ")]
    if lost.startswith("half"):
        target.write_bytes(target.read_bytes()[:-9])
    else:
        target.rename(tmp_path / "elsewhere")
    # Little of the file is used afterwards.
    used(tmp_path, {1: dict(many)})
    assert found(tmp_path, 0) == {}
    used(tmp_path, {0: {"b": state(2)}})
    assert (found(tmp_path, 0), len(found(tmp_path, 1))) == ({"b": state(2)}, len(many))


def test_a_folder_that_is_removed_while_a_process_uses_it_is_built_again(tmp_path: Path) -> None:
    folder = used(tmp_path, {0: {"a": state(1)}})
    folder.rename(tmp_path / "elsewhere")
    used(tmp_path, {0: {"b": state(2)}})
    assert found(tmp_path, 0) == {"b": state(2)}


def test_runs_in_the_order_of_another_hash_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(tmp_path, {0: {"a": state(1)}})
    monkeypatch.setattr(pandas, "__version__", "another")
    assert found(tmp_path, 0) == {}


def test_a_task_has_the_copy_for_itself(tmp_path: Path) -> None:
    cache = StateCache(str(tmp_path), CHECKPOINT, 0)
    other = os.open(cache._folder / "lock", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    cache.commit()
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
