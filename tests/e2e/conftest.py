"""The embedded platform for the whole session: real Kafka and Airflow, on free ports."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator

import pytest

from stateward.project.settings import CHECKOUT
from tests.support.control.installation import Installation


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A platform that is up. A test that breaks it has to leave it repaired."""
    folder = tmp_path_factory.mktemp("platform")
    # Copies, so that a test can deploy something else.
    jobs = shutil.copytree(CHECKOUT / "spark_jobs", folder / "deployed" / "spark_jobs")
    streams = shutil.copytree(CHECKOUT / "include" / "streams", folder / "deployed" / "streams")
    installation = Installation.in_folder(folder / "home", jobs=jobs, streams=streams)
    try:
        installation.must_run("up")
        yield installation
    finally:
        installation.must_run("down")


@pytest.fixture(scope="session")
def _scenarios() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def days_later(_scenarios: Iterator[int]) -> int:
    """By how many days to shift a test's events, so that they come after those of every test before it.

    The tests of a worker share a platform, and events behind the watermark of an earlier test are late. The
    order of the files differs from run to run.
    """
    return 30 * next(_scenarios)
