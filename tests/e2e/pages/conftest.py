"""A platform with one stream that runs, and a browser that is logged in to its Airflow."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stateward.project.settings import CHECKOUT
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.pages.browser import logged_in
from tests.support.streams.event_files import as_line, shifted, web_events, write_lines
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

# What comes while operations go on, so that a stream which runs again commits something.
RATE = 5


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A platform whose YAML may be changed."""
    home = tmp_path_factory.mktemp("platform") / "home"
    streams = shutil.copytree(CHECKOUT / "include" / "streams", home.parent / "streams")
    # Without validations, each of which is a Spark job.
    yaml = streams / "user_sessions.yaml"
    yaml.write_text(re.sub("^quality:.*\n", "", yaml.read_text(), flags=re.MULTILINE))
    installation = Installation.in_folder(home, streams=streams)
    try:
        installation.must_run("up")
        yield installation
    finally:
        installation.must_run("down")


@pytest.fixture(scope="module")
def stream(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStream]:
    """The stream, supervised, with something in its state, and more to come."""
    stream = LiveStream("user_sessions", installation)
    stream.trigger("run")
    stream.wait_running()
    events = [as_line(event) for event in shifted(web_events(), 0, "pages")]
    folder = tmp_path_factory.mktemp("events")
    assert stream.replay(write_lines(folder / "first.jsonl", events[:2000])).wait(timeout=PATIENCE_S) == 0
    wait_until(lambda: stream.counted() >= 2000, PATIENCE_S, stream.describe)
    more = stream.replay(write_lines(folder / "more.jsonl", events[2000:]), "--rate", str(RATE))
    try:
        yield stream
    finally:
        more.terminate()
        more.wait(30)


@pytest.fixture(scope="module")
def page(installation: Installation) -> Iterator[Page]:
    with logged_in(installation) as page:
        yield page
