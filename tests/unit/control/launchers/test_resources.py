"""What is declared of executors, as the settings of each kind of master."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.control.launchers.resources import Executors, executors_conf

TWO = Executors(count=2, cores=3, memory="2g")
EACH = {"spark.executor.cores": "3", "spark.executor.memory": "2g"}
ALONE = "spark://host:7077"


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", {}),
        ("local[2]", {}),
        ("local[*,4]", {}),
        (ALONE, {**EACH, "spark.cores.max": "6"}),
        ("spark://one:7077,two:7077", {**EACH, "spark.cores.max": "6"}),
        ("yarn", {**EACH, "spark.executor.instances": "2"}),
        ("k8s://https://host:6443", {**EACH, "spark.executor.instances": "2"}),
    ],
)
def test_each_kind_of_master_has_its_settings(master: str, expected: dict[str, str]) -> None:
    assert executors_conf(master, TWO, {}) == expected


@pytest.mark.parametrize(
    ("master", "conf", "changed"),
    [
        (ALONE, {"spark.cores.max": "9"}, {"spark.cores.max": "9"}),
        (ALONE, {"spark.cores.max": "1"}, {"spark.cores.max": "1", "spark.executor.cores": "1"}),
        (
            ALONE,
            {"spark.executor.cores": "5", "spark.executor.instances": "4"},
            {"spark.executor.cores": "5", "spark.cores.max": "20"},
        ),
        (ALONE, {"spark.executor.memory": "8g"}, {"spark.executor.memory": "8g", "spark.cores.max": "6"}),
        ("yarn", {"spark.executor.instances": "7"}, {"spark.executor.instances": "7"}),
    ],
)
def test_settings_of_the_user_go_before_what_is_declared(
    master: str, conf: dict[str, str], changed: dict[str, str]
) -> None:
    assert executors_conf(master, TWO, conf) == {**EACH, **changed}


@given(
    declared=st.builds(Executors, st.integers(1, 50), st.integers(1, 50), st.just("1g")),
    conf=st.fixed_dictionaries(
        {},
        optional={
            "spark.cores.max": st.integers(1, 99).map(str),
            "spark.executor.instances": st.integers(1, 9).map(str),
        },
    ),
)
def test_a_standalone_application_is_bounded_and_one_executor_fits(
    declared: Executors, conf: dict[str, str]
) -> None:
    found = {**executors_conf(ALONE, declared, conf), **conf}
    assert int(found["spark.cores.max"]) >= int(found["spark.executor.cores"]) >= 1
