"""The embedded platform for the whole session: real Kafka and Airflow, on free ports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.installation import Installation


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A platform that is up. A test that breaks it has to leave it repaired."""
    installation = Installation.in_folder(tmp_path_factory.mktemp("platform") / "home")
    try:
        installation.must_run("up")
        yield installation
    finally:
        installation.must_run("down")
