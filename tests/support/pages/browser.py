"""A browser that is logged in to Airflow as a person would be, and its screenshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stateward.platform.secrets import ADMIN
from tests.support.control.installation import Installation

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def logged_in(platform: Installation) -> Iterator[Page]:
    """A page of Airflow's, after the login."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-proxy-server"],
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(60_000)
        page.goto(platform.settings.airflow_url)
        page.get_by_label("Username").fill(ADMIN)
        page.get_by_label("Password").first.fill(platform.password)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Dags").first.wait_for()
        yield page
        browser.close()


def keep(page: Page, name: str) -> None:
    """Keep a screenshot for the docs, when SCREENSHOTS names a folder."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")
