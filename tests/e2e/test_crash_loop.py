"""A poison configuration: tried so often and no more, and the operator's page says why in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.full import ci_full
from tests.support.pages.browser import CHROMIUM, keep, logged_in
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.e2e, ci_full]

TRIES = 3
# Spark has a JVM ignore options that it does not know; these it knows, and not together.
POISON = "-XX:+UseSerialGC -XX:+UseParallelGC"
SAYS = "Multiple garbage collectors selected"


@pytest.fixture
def stream(platform: Installation) -> Iterator[LiveStream]:
    """A stream that no other test starts; no JVM would run its driver. Its YAML is repaired afterwards."""
    stream = LiveStream("event_windows", platform)
    file = platform.settings.streams / f"{stream.name}.yaml"
    sound = file.read_text()
    spec = yaml.safe_load(sound)
    spec["spark"] = {**spec.get("spark", {}), "conf": {"spark.driver.extraJavaOptions": POISON}}
    spec["restart"] = {"backoff": "1s", "max_attempts": TRIES, "window": "15m"}
    file.write_text(yaml.safe_dump(spec))
    yield stream
    file.write_text(sound)
    stream.trigger("stop")
    wait_until(lambda: stream.control()["desired"] == "stopped", PATIENCE_S, stream.describe)


def test_it_is_given_up_after_so_many_tries_and_says_why(stream: LiveStream) -> None:
    run = stream.trigger("run")
    wait_until(lambda: stream.run_state(run) == "failed", PATIENCE_S, stream.describe, poll_s=1)
    logs = list(stream.layout.driver_log_dir(stream.name).glob("*.log"))
    assert len(logs) == TRIES + 1, "once, and then each try"
    assert all(SAYS in log.read_text() for log in logs)
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine to look at the page with")
    with logged_in(stream.installation) as page:
        page.get_by_test_id("nav-sidebar").get_by_role("link", name="Streams", exact=True).click()
        card = page.frame_locator("iframe[title='Streams']").locator(f"article#{stream.name}")
        card.locator(".badge.bad").wait_for()
        said = card.inner_text()
        keep(page, "streams-crash-loop")
    assert f"before it reported anything: {SAYS}; restarted {TRIES} times within 900 s" in said
