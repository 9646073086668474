"""For any batches, order and interruptions of the input the rows are the oracle's, and the state empties.

Every stream of the catalogue goes through the processor that Spark runs. Durations are scaled down, so that
few events meet every timeout; a jitter may spread those. The full number of examples is that of `make full`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stateward.testing import any_cut
from stateward.testing.cut_property import check_any_cut
from tests.support.streams.cases import CASES


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_the_rows_are_those_of_the_oracle_and_the_state_empties(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_any_cut(CASES[name], data, tmp_path_factory.mktemp("copy"))


test_a_project_gets_the_same_test_by_one_import = any_cut("user_activity", activity=st.just("login"))


class _FirstArrival:
    """A logic with a memory of its own: the kind of an event depends on how often it was called."""

    def __init__(self, logic: Any) -> None:
        self._logic = logic
        self._seen = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logic, name)

    def apply(self, key: str, state: Any, event: Any) -> Any:
        self._seen += 1
        return self._logic.apply(key, state, event._replace(activity="login" if self._seen % 2 else "logout"))


def test_a_logic_that_depends_on_the_cut_is_found_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    case = CASES["user_activity"]

    @settings(deadline=None, database=None, max_examples=60, phases=[Phase.generate])
    @given(data=st.data())
    def test(data: st.DataObject) -> None:
        logic: Any = _FirstArrival(case.logic)
        check_any_cut(replace(case, logic=logic), data, tmp_path_factory.mktemp("copy"))

    with pytest.raises(AssertionError):
        test()
