"""What the operator's page says of who wants a stream how, and of what has been deployed since."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from stateward.contract.reading import as_json
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Control, Override
from stateward.control.reconcile.observe import read_control
from stateward.pages.streams.documents import read_streams
from stateward.pages.streams.page import render
from stateward.pages.streams.view import StreamView, stream_view
from stateward.project.layout import Layout
from tests.support.pages.sample_streams import Written, installation, write

NOW = datetime(2026, 2, 3, 14, 30, tzinfo=UTC)
STREAM = "user_sessions"


@pytest.fixture
def written(tmp_path: Path) -> Written:
    made = installation(tmp_path, NOW)
    write(made, "healthy")
    return made


def change(written: Written, **changes: object) -> None:
    control = read_control(Layout.of(written.settings), STREAM)
    assert control is not None
    changed: Control = replace(control, **changes)
    write_json(Layout.of(written.settings).control_uri(STREAM), as_json(changed))


def view(written: Written) -> StreamView:
    found = {
        one.stream: stream_view(one, NOW - timedelta(hours=6), NOW, 30)
        for one in read_streams(written.settings)
    }
    return found[STREAM]


def test_an_override_is_told_with_its_author_and_reason(written: Written) -> None:
    change(written, override=Override("running", "ann <a@b>", "the audit is over", NOW), declared="suspended")
    assert view(written).wish == (
        "asked at 14:30:00 by ann <a@b>, over its YAML's suspended: the audit is over"
    )
    html = render(read_streams(written.settings), NOW, 6)
    assert "ann &lt;a@b&gt;" in html


def test_what_has_been_deployed_since_is_told(written: Written) -> None:
    assert "release" not in dict(view(written).facts)
    change(written, release="0123456789ab-0123456789ab")
    assert dict(view(written).facts)["release"] == (
        "0123456789ab-0123456789ab; upgrade available (code, YAML)"
    )
