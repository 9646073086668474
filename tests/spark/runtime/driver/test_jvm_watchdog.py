"""What a driver's Python does with its JVM."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from stateward.runtime.driver.jvm_watchdog import ParentJvm
from tests.support.waiting import wait_until

GARBAGE = 32 << 20


def test_a_quiet_driver_collects_the_garbage_of_its_jvm(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm: Any = spark.sparkContext._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()

    def used() -> int:
        return int(runtime.totalMemory() - runtime.freeMemory())

    def used_after_a_query() -> int:
        spark.range(10_000).collect()
        return used()

    gateway: Any = spark.sparkContext._gateway
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", str(gateway.gateway_parameters.port))
    parent = ParentJvm()
    used_after_a_query()
    parent.give_back()
    live = used()
    # The JVM collects garbage itself when it has far more.
    wait_until(lambda: used_after_a_query() > live + GARBAGE, 60, "there is garbage", poll_s=0)
    parent.give_back()
    assert used() < live + GARBAGE / 2
