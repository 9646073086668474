"""Releases: what makes one another, what is kept of them, and with which one a driver is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.control.release import (
    KEPT_RELEASES,
    ReleaseError,
    differences,
    find,
    keep,
    release_of,
    upgrade_available,
)
from include.settings import CHECKOUT, Settings
from include.spec import StreamSpec, load_spec

STREAM = "user_sessions"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An installation with code and YAML of its own."""
    jobs = tmp_path / "deployed" / "spark_jobs"
    (jobs / STREAM / "__pycache__").mkdir(parents=True)
    (jobs / STREAM / "job.py").write_text("print('one')\n")
    streams = tmp_path / "streams"
    streams.mkdir()
    shutil.copy(CHECKOUT / "include" / "streams" / f"{STREAM}.yaml", streams)
    return Settings(home=tmp_path / "home", jobs=jobs, streams=streams)


def spec(settings: Settings, **changes: Any) -> StreamSpec:
    file = settings.streams / f"{STREAM}.yaml"
    if changes:
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | changes))
    return load_spec(STREAM, settings.streams)


def test_only_what_a_driver_is_started_with_makes_another_release(settings: Settings) -> None:
    first = release_of(spec(settings), settings)
    (settings.jobs / STREAM / "__pycache__" / "job.pyc").write_text("compiled")
    same = spec(settings, desired="suspended", owner="others", restart={"max_attempts": 9})
    assert release_of(same, settings) == first

    code = settings.jobs / STREAM / "job.py"
    code.write_text("print('two')\n")
    changed = release_of(same, settings)
    assert differences(first, changed) == ["code"]
    slower = spec(settings, trigger_interval="7s")
    assert differences(changed, release_of(slower, settings)) == ["YAML"]
    assert differences(first, release_of(slower, settings)) == ["code", "YAML"]
    # A file that moves is another release, though every byte is still there.
    code.rename(settings.jobs / "job.py")
    assert differences(changed, release_of(slower, settings)) == ["code", "YAML"]


def test_an_upgrade_is_available_once_something_was_launched_and_another_is_deployed(
    settings: Settings,
) -> None:
    known = spec(settings)
    launched = keep(known, settings).id
    assert upgrade_available(None, known, settings) == []
    assert upgrade_available(launched, known, settings) == []
    assert upgrade_available(launched, spec(settings, trigger_interval="7s"), settings) == ["YAML"]


def test_a_release_is_kept_as_it_was(settings: Settings) -> None:
    known = spec(settings)
    kept = keep(known, settings)
    (settings.jobs / STREAM / "job.py").write_text("print('two')\n")
    spec(settings, trigger_interval="7s")

    found = find(STREAM, kept.id, settings)
    assert found == kept
    assert (found.code / "spark_jobs" / STREAM / "job.py").read_text() == "print('one')\n"
    assert load_spec(STREAM, found.streams) == known
    assert not (found.code / "spark_jobs" / STREAM / "__pycache__").exists()
    assert keep(spec(settings), settings) != kept


def test_what_is_not_kept_is_named_with_the_way_out(settings: Settings) -> None:
    kept = keep(spec(settings), settings)
    shutil.rmtree(kept.code)
    with pytest.raises(ReleaseError, match=f"{STREAM}: expected its release {kept.id} .* action restart"):
        find(STREAM, kept.id, settings)


def test_the_oldest_go_and_code_that_is_needed_stays(settings: Settings) -> None:
    oldest = keep(spec(settings), settings)
    later = []
    for number in range(1, KEPT_RELEASES + 3):
        later.append(keep(spec(settings, trigger_interval=f"{number}s"), settings))
        for age, release in enumerate(reversed([oldest, *later])):
            if release.streams.exists():
                os.utime(release.streams, (1_700_000_000 - age, 1_700_000_000 - age))
    assert not oldest.streams.exists()
    assert [release.streams.exists() for release in later[-KEPT_RELEASES:]] == [True] * KEPT_RELEASES
    assert (oldest.code / "spark_jobs").is_dir(), "the others have the same code"
