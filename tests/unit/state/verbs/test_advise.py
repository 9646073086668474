"""A stream that has not committed a batch has no state to measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.state.verbs.advise import AdviseVerb
from tests.support.state.installed_stream import STREAM, Installed


def test_without_a_committed_batch_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    made = Installed(tmp_path)
    for _ in range(2):
        answer = AdviseVerb(made.context("advise", "op-1", {})).run()
        assert answer.lines == (f"{STREAM} has not committed a batch yet: there is nothing to look at.",)
        assert (answer.data, answer.is_good) == ({"look": None}, True)
        made.plan(0)  # A planned batch is none.
    made.run(0)
    with pytest.raises(pytest.fail.Exception, match="no Spark is needed"):
        AdviseVerb(made.context("advise", "op-1", {})).run()
