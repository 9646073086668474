"""A changed YAML is noticed once, and one that cannot be used is left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stateward.control.reconcile.spec_watcher import YamlWatch, digest_of
from stateward.project.settings import CHECKOUT

STREAM = "user_sessions"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(shutil.copy(CHECKOUT / "include" / "streams" / f"{STREAM}.yaml", tmp_path))


def write(file: Path, text: str, at: int) -> None:
    file.write_text(text)
    os.utime(file, (at, at))


def test_each_change_is_noticed_once(file: Path) -> None:
    watch, text = YamlWatch(STREAM, file.parent), file.read_text()
    assert [watch.changed(), watch.changed()] == [False, False]
    write(file, f"{text}desired: suspended\n", 1_900_000_000)
    assert [watch.changed(), watch.changed()] == [True, False]


def test_an_edit_before_anybody_watches_is_noticed(file: Path) -> None:
    gone_by, text = digest_of(STREAM, file.parent), file.read_text()
    assert not YamlWatch(STREAM, file.parent, gone_by).changed()
    write(file, f"{text}desired: suspended\n", 1_900_000_000)
    watch = YamlWatch(STREAM, file.parent, gone_by)
    assert [watch.changed(), watch.changed()] == [True, False]


def test_what_cannot_be_used_is_said_once_and_left(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch, text = YamlWatch(STREAM, file.parent), file.read_text()
    watch.changed()
    write(file, f"{text}desired: dancing\n", 1_900_000_000)
    assert [watch.changed(), watch.changed()] == [False, False]
    assert caplog.text.count("is not used") == 1
    file.unlink()
    assert not watch.changed()
    write(file, text, 1_900_000_001)
    assert watch.changed()
