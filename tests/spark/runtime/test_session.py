"""The session of a driver, for what no query shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stateward.runtime.session import CODE_FACTORY, NO_CODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark_settings() -> dict[str, str]:
    return {CODE_FACTORY: NO_CODE}


def test_threads_without_a_session_generate_no_code_either(spark: SparkSession) -> None:
    """Spark's state servers, which would generate it for each state variable of each task."""
    jvm: Any = spark.sparkContext._jvm
    of_no_session = jvm.org.apache.spark.sql.internal.SQLConf.getFallbackConf()
    assert of_no_session.codegenFactoryMode().toString() == NO_CODE
