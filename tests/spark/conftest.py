"""Fixture `spark`: the session of a driver, in the process of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stateward.runtime.driver import session as spark_session
from tests.support.spark.launches import JARS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STATEWARD_JARS", str(JARS))
        patch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        made = spark_session.create_session("tests-spark", 2, spark_session.checkpoint_conf("file:"))
        yield made
        made.stop()
