"""A browser that is logged in to Airflow as a person would be, and its screenshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stateward.platform.secrets import ADMIN
from stateward.project.settings import CHECKOUT
from tests.support.control.installation import Installation
from tests.support.pages.pictures import PICTURES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = CHECKOUT / "docs" / "images"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """A browser without a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-proxy-server"],
        )
        yield browser
        browser.close()


@contextmanager
def opened_page(*, any_certificate: bool = False) -> Iterator[Page]:
    """An empty page of a browser of its own; `any_certificate` of a server will do."""
    with opened_browser() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900}, ignore_https_errors=any_certificate)
        page.set_default_timeout(60_000)
        yield page


@contextmanager
def logged_in(platform: Installation) -> Iterator[Page]:
    """A page of Airflow's, after the login."""
    with opened_page() as page:
        page.goto(platform.settings.airflow_url)
        page.get_by_label("Username").fill(ADMIN)
        page.get_by_label("Password").first.fill(platform.password)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Dags").first.wait_for()
        yield page


def keep(page: Page, name: str, *, whole: bool = False) -> None:
    """Keep a screenshot, when SCREENSHOTS names a folder; in docs/images only those that the docs show.

    Args:
        page: What is shown.
        name: That of the picture.
        whole: Whether it has the whole page, and not only what is in the window.
    """
    folder = os.environ.get("SCREENSHOTS")
    if folder and (name in PICTURES or Path(folder).resolve() != IMAGES):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=whole)
