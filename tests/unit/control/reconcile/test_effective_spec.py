"""Which YAML counts while the current one is invalid."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control
from stateward.control.reconcile.effective_spec import spec_in_force
from stateward.control.releases.release import keep
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import SpecError

STREAM = "user_sessions"
CONTROL = Control(STREAM, "running", "one", datetime(2026, 1, 31, 12, 0, tzinfo=UTC), "a person", "")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An installation with YAML of its own."""
    streams = tmp_path / "streams"
    streams.mkdir()
    (streams / f"{STREAM}.yaml").write_text((CHECKOUT / "include/streams" / f"{STREAM}.yaml").read_text())
    return Settings(home=tmp_path / "home", streams=streams)


def edit(settings: Settings, **changes: object) -> None:
    file = settings.streams / f"{STREAM}.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | changes))


def note(settings: Settings, control: Control) -> None:
    write_json(Layout.of(settings).control_uri(STREAM), as_json(control))


def test_that_of_now_counts_whatever_was_launched(settings: Settings) -> None:
    note(settings, replace(CONTROL, release=keep(STREAM, settings).id))
    edit(settings, trigger_interval="7s")
    assert spec_in_force(STREAM, settings).trigger_interval.total_seconds() == 7


def test_while_it_is_broken_or_gone_that_of_the_newest_driver_counts(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    edit(settings, trigger_interval="7s")
    note(settings, replace(CONTROL, release=keep(STREAM, settings).id))
    edit(settings, trigger_interval="soon")
    assert spec_in_force(STREAM, settings).trigger_interval.total_seconds() == 7
    assert "trigger_interval" in caplog.text
    (settings.streams / f"{STREAM}.yaml").unlink()
    assert spec_in_force(STREAM, settings).trigger_interval.total_seconds() == 7


def test_what_was_declared_last_stays_declared(settings: Settings) -> None:
    note(settings, replace(CONTROL, release=keep(STREAM, settings).id, declared="suspended"))
    edit(settings, trigger_interval="soon")
    assert spec_in_force(STREAM, settings).desired == "suspended"


@pytest.mark.parametrize("release", [None, "0" * 12 + "-" + "0" * 12])
def test_without_a_release_to_fall_back_on_the_problem_is_said(
    settings: Settings, release: str | None
) -> None:
    note(settings, replace(CONTROL, release=release))
    edit(settings, trigger_interval="soon")
    with pytest.raises(SpecError, match="trigger_interval"):
        spec_in_force(STREAM, settings)
