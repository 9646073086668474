"""A stream that has run, installed again for each test."""

from __future__ import annotations

import pytest

from tests.support.state.installed_stream import Installed, Stage, two_batches_and_one_after_a_savepoint


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Made once for a module; modules that need another past override it."""
    return Stage(tmp_path_factory.mktemp("stage"), two_batches_and_one_after_a_savepoint)


@pytest.fixture
def installed(stage: Stage) -> Installed:
    return stage.fresh()
