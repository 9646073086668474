"""The embedded platform for the whole session: real Kafka and Airflow, on free ports."""

from __future__ import annotations

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
