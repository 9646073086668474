"""A restore killed at any point leaves the stream unchanged, or can be finished."""

from __future__ import annotations

import pytest

from stateward.runtime.checkpoint.generations import PendingOperationError
from tests.support.state.installed_stream import STREAM, Stage, two_batches_and_one_after_a_savepoint
from tests.support.state.restore_child import restore_dies


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("restore"), two_batches_and_one_after_a_savepoint)


def test_a_death_at_any_point_leaves_the_old_or_leads_to_the_new(stage: Stage) -> None:
    old = stage.fresh().rows()
    stage.installed.restore()
    new, totals = stage.installed.rows(), stage.installed.totals()
    assert new != old
    seen: set[str] = set()
    acts = 0
    while restore_dies(installed := stage.fresh(), acts, "op-1"):
        if installed.generation.pending is None:
            assert installed.generation.number == 1
            assert installed.rows() == old
            assert installed.totals()["accepted"] == 33
            seen.add("old")
        else:
            with pytest.raises(PendingOperationError, match=r"operation op-1 .*`stateward state restore"):
                installed.generation.require_settled(STREAM)
            # It is killed again, and then finished.
            assert restore_dies(installed, 0, "op-2")
            seen.add("under way")
        done = installed.restore(operation="op-3")
        assert done["finished"] == ("op-1" if "under way" in seen else None)
        assert installed.generation.pending is None
        assert (installed.rows(), installed.totals()) == (new, totals)
        assert installed.checkpoint.is_clean()
        acts += 1
    assert seen == {"old", "under way"}
    assert acts > 15, "expected more writes"
