"""A savepoint killed by SIGKILL at any point is never valid, and the checkpoint is unchanged."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from stateward.state.files.checkpoint_copy import checksums_of
from stateward.state.savepoints.savepoint_catalog import stamp
from stateward.state.verbs.verify import verify
from tests.support.state.installed_stream import NOW, Installed, Stage, quiet

_MANY = 10_000
LATER = NOW + timedelta(hours=1)


def two_batches(made: Installed) -> None:
    made.run(0)
    made.run(1)


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("savepoint"), two_batches)


def in_a_process(folder: Path, survives: int) -> tuple[int, str]:
    """How it ended, and what it said."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.state.savepoint_child", str(folder), str(survives)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode in (0, -signal.SIGKILL), child.stderr
    return child.returncode, child.stdout


def test_killed_at_any_point_it_is_not_good_and_the_next_one_is(stage: Stage) -> None:
    installed = stage.fresh()
    code, said = in_a_process(installed.folder, _MANY)
    acts = int(said)
    assert code == 0
    assert installed.catalog.look(stamp(NOW)).is_good
    assert acts > 10, "where have its acts gone?"
    # The last two are those of the manifest: its text, and then its name.
    for survives in (0, acts // 2, acts - 2, acts - 1):
        installed = stage.fresh()
        before = checksums_of(installed.generation.uri)
        assert in_a_process(installed.folder, survives)[0] == -signal.SIGKILL

        assert checksums_of(installed.generation.uri) == before
        for broken in verify(installed.catalog, None, quiet):
            [problem] = broken.problems
            assert problem == "it has no manifest.json: its copy was interrupted, or is still running"
        installed.savepoint(LATER)
        assert installed.catalog.require_good(None).savepoint == stamp(LATER)
        assert checksums_of(installed.generation.uri) == before
