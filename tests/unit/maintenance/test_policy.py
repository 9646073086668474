"""The file that says how tables are maintained."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from stateward.maintenance.policy import Policy, PolicyError, load_policies
from stateward.project.settings import Settings


def written(folder: Path, text: str) -> Path:
    file = folder / "maintenance.yaml"
    file.write_text(text)
    return file


def test_the_file_that_comes_with_the_project_says_the_defaults() -> None:
    assert load_policies(Settings().maintenance).of("any") == Policy()


def test_a_table_differs_in_what_it_says_and_in_nothing_else(tmp_path: Path) -> None:
    text = "defaults: {history: 3d, small_files: 8}\ntables:\n  visits: {history: 6h}\n"
    policies = load_policies(written(tmp_path, text))

    assert policies.of("visits") == Policy(history=timedelta(hours=6), small_files=8)
    assert policies.of("alerts").history == timedelta(days=3)


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load_policies(written(tmp_path, "")).of("any") == Policy()


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("defaults: {histroy: 1d}\n", "maintenance.yaml:1: defaults.histroy", "history"),
        ("defaults:\n  history: 5m\n", "maintenance.yaml:2: defaults.history", "at least 1h"),
        ("tables:\n  a: {}\n  b:\n    small_files: 1\n", "maintenance.yaml:4: tables.b.small_files", "2"),
        ("defaults: [\n", "maintenance.yaml", "YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, place: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policies(written(tmp_path, text))

    assert place in str(caught.value)
    assert words in str(caught.value)


def test_log_entries_are_left_to_maintenance_alone() -> None:
    assert Policy(history=timedelta(hours=2)).properties == {
        "delta.deletedFileRetentionDuration": "interval 7200 seconds",
        "delta.logRetentionDuration": "interval 7200 seconds",
        "delta.enableExpiredLogCleanup": "false",
    }
