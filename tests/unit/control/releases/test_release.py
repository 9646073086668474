"""Releases: what makes one another, what is kept of them, and with which one a driver is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateward.contract.storage import read_json, replace_file
from stateward.control.launchers import driver_process, launch
from stateward.control.releases import release as release_module
from stateward.control.releases.release import (
    KEPT_RELEASES,
    ReleaseError,
    differences,
    find,
    keep,
    release_of,
    upgrade_available,
)
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import StreamSpec, load_spec

STREAM = "user_sessions"
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


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
    same = spec(
        settings,
        desired="suspended",
        owner="others",
        restart={"max_attempts": 9},
        reconciliation={"days": 3},
        savepoints=None,
    )
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
    launched = keep(STREAM, settings).id
    assert upgrade_available(None, known, settings) == []
    assert upgrade_available(launched, known, settings) == []
    assert upgrade_available(launched, spec(settings, trigger_interval="7s"), settings) == ["YAML"]


def test_the_code_of_another_stream_makes_no_other_release(settings: Settings) -> None:
    first = release_of(spec(settings), settings)
    for module, text in (
        ("other/logic.py", "OTHER = 1"),
        ("other/unit.py", "from spark_jobs.third import model"),
        ("third/model.py", "import spark_jobs.fourth.model as model"),
        ("fourth/model.py", "from .. import money"),
        ("money.py", "CENTS = 100"),
    ):
        (settings.jobs / module).parent.mkdir(exist_ok=True)
        (settings.jobs / module).write_text(text)
    assert release_of(spec(settings), settings) == first

    (settings.jobs / STREAM / "job.py").write_text(
        "def run():\n    from spark_jobs.other.unit import model\n"
    )
    with_imports = release_of(spec(settings), settings)
    kept = keep(STREAM, settings).code / "spark_jobs"
    assert sorted(path.name for path in kept.iterdir()) == ["fourth", "money.py", "other", "third", STREAM]
    (settings.jobs / "money.py").write_text("CENTS = 1000")
    assert differences(with_imports, release_of(spec(settings), settings)) == ["code"]


def test_the_version_of_the_library_is_part_of_a_release(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = release_of(spec(settings), settings)
    monkeypatch.setattr(release_module, "_VERSION", "9.1.0")
    newer = release_of(spec(settings), settings)
    assert differences(first, newer) == ["library"] and "-9.1.0." in newer

    shutil.copytree(release_module._LIBRARY, tmp_path / "stateward")
    (tmp_path / "stateward" / "runtime" / "session.py").write_text("")
    (tmp_path / "stateward" / "cli" / "main.py").write_text("")
    monkeypatch.setattr(release_module, "_LIBRARY", tmp_path / "stateward")
    assert differences(newer, release_of(spec(settings), settings)) == ["library"]


def test_a_release_whose_id_has_two_parts_is_found_and_differs(settings: Settings) -> None:
    kept = keep(STREAM, settings)
    folder = settings.home / "releases"
    yaml_part = kept.id.rpartition("-")[2]
    before = f"0123456789ab-{yaml_part}"
    kept.code.rename(folder / "code" / "0123456789ab")
    kept.streams.rename(folder / STREAM / before)

    found = find(STREAM, before, settings)
    assert found.code.name == "0123456789ab"
    assert upgrade_available(before, spec(settings), settings) == ["code"]
    assert upgrade_available(before, spec(settings, trigger_interval="7s"), settings) == ["code", "YAML"]
    keep(STREAM, settings)
    assert find(STREAM, before, settings) == found, "the code of a release that is kept was swept away"


def test_a_release_is_kept_as_it_was(settings: Settings) -> None:
    known = spec(settings)
    kept = keep(STREAM, settings)
    (settings.jobs / STREAM / "job.py").write_text("print('two')\n")
    spec(settings, trigger_interval="7s")

    found = find(STREAM, kept.id, settings)
    assert found == kept
    assert (found.code / "spark_jobs" / STREAM / "job.py").read_text() == "print('one')\n"
    assert load_spec(STREAM, found.streams) == known
    assert not (found.code / "spark_jobs" / STREAM / "__pycache__").exists()
    # A driver imports the library it was started with, not the one that is installed by then.
    program = "import stateward.contract.process_output as found; print(found.__file__)"
    environment = launch.driver_environment(os.environ, settings, STREAM, "r1", found.code)
    where = driver_process.code_folder(environment)
    found_in = subprocess.check_output([sys.executable, "-c", program], env=environment, cwd=where, text=True)
    assert Path(found_in).is_relative_to(found.code)
    assert keep(STREAM, settings) != kept


def test_a_copy_that_a_death_has_cut_short_does_not_count_as_kept(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", dies)
        keep(STREAM, settings)
    release = release_of(spec(settings), settings)
    with pytest.raises(ReleaseError, match="found it incomplete"):
        find(STREAM, release, settings)

    kept = keep(STREAM, settings)
    assert kept.id == release
    assert [path.name for path in kept.streams.iterdir()] == [f"{STREAM}.yaml"]
    # One that an earlier release of ours has cut is mended, too.
    (kept.streams / f"{STREAM}.yaml").write_text("stream: user_")
    assert load_spec(STREAM, keep(STREAM, settings).streams) == spec(settings)


def test_an_edit_while_it_is_kept_never_gets_under_the_name_of_the_version_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = release_of(spec(settings), settings)
    copytree = shutil.copytree

    def edited_before_the_copy(*arguments: Any, **options: Any) -> object:
        (settings.jobs / STREAM / "job.py").write_text("print('two')\n")
        return copytree(*arguments, **options)

    def edited_before_the_yaml_is_written(*arguments: Any) -> None:
        spec(settings, trigger_interval="7s")
        replace_file(*arguments)

    monkeypatch.setattr(shutil, "copytree", edited_before_the_copy)
    monkeypatch.setattr(release_module, "replace_file", edited_before_the_yaml_is_written)
    kept = keep(STREAM, settings)

    assert differences(before, kept.id) == ["code"]
    of_the_copy = Settings(home=settings.home, jobs=kept.code / "spark_jobs", streams=kept.streams)
    assert kept.id == release_of(load_spec(STREAM, kept.streams), of_the_copy)
    assert find(STREAM, kept.id, settings) == kept


def test_a_launch_takes_what_was_kept_and_keeps_again_what_is_deployed_and_missing(
    settings: Settings,
) -> None:
    launcher = launch.SparkLauncher(spec(settings), settings, lambda *_: driver_process.DriverCommand([], {}))
    # It was edited after the task had read it.
    spec(settings, trigger_interval="7s")
    wanted = launcher.prepare("r1", NOW, None).release
    assert wanted == release_of(spec(settings), settings)
    config = read_json(Layout.of(settings).config_uri(STREAM))
    assert config is not None
    assert config["trigger_interval_ms"] == 7000

    for folder in (settings.home / "releases", settings.home / "data" / "releases"):
        shutil.rmtree(folder)
    assert launcher.prepare("r2", NOW, wanted).release == wanted
    # What is kept is started again, however broken the current YAML is.
    (settings.streams / f"{STREAM}.yaml").write_text("stream: [")
    assert launcher.prepare("r3", NOW, wanted).release == wanted
    with pytest.raises(driver_process.LaunchError, match="its release cannot be started"):
        launcher.prepare("r4", NOW, None)


def test_what_is_not_kept_is_named_with_the_way_out(settings: Settings) -> None:
    kept = keep(STREAM, settings)
    shutil.rmtree(kept.code)
    with pytest.raises(ReleaseError, match=f"{STREAM}: expected its release {kept.id} .* action restart"):
        find(STREAM, kept.id, settings)


def test_the_oldest_go_and_code_that_is_needed_stays(settings: Settings) -> None:
    oldest = keep(STREAM, settings)
    later = []
    for number in range(1, KEPT_RELEASES + 3):
        spec(settings, trigger_interval=f"{number}s")
        later.append(keep(STREAM, settings))
        for age, release in enumerate(reversed([oldest, *later])):
            if release.streams.exists():
                os.utime(release.streams, (1_700_000_000 - age, 1_700_000_000 - age))
    assert not oldest.streams.exists()
    assert [release.streams.exists() for release in later[-KEPT_RELEASES:]] == [True] * KEPT_RELEASES
    assert (oldest.code / "spark_jobs").is_dir(), "the others have the same code"
