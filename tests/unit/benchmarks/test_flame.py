"""The flame graph's widths are CPU time: nothing is lost between samples, threads and boxes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.charts.flame_chart import boxes, draw_flames
from benchmarks.charts.flame_stacks import read, shared
from benchmarks.harness.roles import ENDED, Thread, spent
from tests.support.full import ci_full

# It is about what the software is tested with.
pytestmark = ci_full


def test_samples_share_what_their_thread_has_used() -> None:
    used = {Thread(1, "main"): 3.0, Thread(2, "rdk:broker1"): 0.5, ENDED: 1.0}
    samples: dict[int, Counter[tuple[str, ...]]] = {
        1: Counter({("a", "b"): 2, ("a",): 1}),
        9: Counter({("task",): 7}),
    }
    found = shared(used, samples)
    assert found == {
        ("a", "b"): pytest.approx(2.0),
        ("a",): pytest.approx(1.0),
        ("rdk:broker",): 0.5,
        ("task",): 1.0,
    }
    assert sum(found.values()) == pytest.approx(4.5)


def test_samples_of_python_are_those_of_its_own_threads(tmp_path: Path) -> None:
    (tmp_path / "1").write_text(
        "<module> (daemon.py:1);main (worker.py:2);fold (bucket.py:3) 3\n"
        "<module> (daemon.py:1);main (worker.py:2);read (kafka_reader.py:4) 1\n"
    )
    samples = read(tmp_path / "1")
    found = shared({Thread(5, "python"): 4.0, Thread(6, "rdk:main"): 1.0}, samples)
    assert found == {("fold bucket",): 3.0, ("read kafka_reader",): 1.0, ("rdk:main",): 1.0}


def test_what_was_not_recorded_is_a_block_by_name(tmp_path: Path) -> None:
    samples = read(tmp_path / "none")
    assert shared({Thread(7, "data-plane-3"): 2.0}, samples) == {("data-plane",): 2.0}


def test_time_is_what_was_added_between_two_looks() -> None:
    before = {Thread(1, "a"): 2.0, Thread(2, "b"): 1.0}
    assert spent(before, {Thread(1, "a"): 2.5, Thread(2, "b"): 1.0, Thread(3, "c"): 0.25}) == {
        Thread(1, "a"): 0.5,
        Thread(3, "c"): 0.25,
    }


def test_boxes_lie_side_by_side_within_their_caller() -> None:
    stacks = {("role", "t", "b"): 1.0, ("role", "t", "a"): 3.0, ("other",): 2.0, ("tiny",): 0.01}
    laid = {box.frame: (box.begin, box.end, box.depth, box.role) for box in boxes(stacks, 0.1)}
    assert laid == {
        "role": (0.0, 4.0, 0, "role"),
        "t": (0.0, 4.0, 1, "role"),
        "a": (0.0, 3.0, 2, "role"),
        "b": (3.0, 4.0, 2, "role"),
        "other": (4.0, 6.0, 0, "other"),
    }


def test_the_picture_has_the_names_that_fit(tmp_path: Path) -> None:
    path = tmp_path / "flames.svg"
    draw_flames({("broker", "network"): 1.0, ("Python workers", "fold"): 9.0}, path, "a title")
    svg = path.read_text()
    assert all(text in svg for text in ("a title", "fold", "network", "broker"))
