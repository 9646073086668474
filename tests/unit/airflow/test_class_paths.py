"""Class paths that others hold: Airflow's database, and the notifiers of a project."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("include.triggers.stream_progress.StreamProgressTrigger", "triggers.stream_progress"),
        ("include.triggers.stream_turn.StreamBackTrigger", "triggers.stream_turn"),
        ("include.triggers.stream_turn.StreamDrainedTrigger", "triggers.stream_turn"),
        ("include.triggers.table_update.TableUpdateTrigger", "triggers.table_update"),
        ("include.notifications.json_lines.JsonLinesNotifier", "notifiers.json_lines"),
        ("include.notifications.task_log.TaskLogNotifier", "notifiers.task_log"),
    ],
)
def test_a_class_path_of_the_release_before_is_the_class_of_now(old: str, new: str) -> None:
    module, _, name = old.rpartition(".")
    assert getattr(import_module(module), name) is getattr(import_module(f"stateward.airflow.{new}"), name)
