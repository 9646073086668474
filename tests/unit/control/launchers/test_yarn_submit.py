"""What a driver on YARN is submitted with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stateward.control.launchers.yarn_submit import cluster_mode_conf, is_yarn, yarn_conf
from stateward.project.settings import Settings

JARS = "spark.yarn.jars"


@pytest.mark.parametrize("master", ["yarn", "spark://a:1", "local[2]"])
def test_yarn_is_told_by_its_master(master: str) -> None:
    assert is_yarn(master) == (master == "yarn")


@pytest.mark.parametrize(
    ("python", "conf", "jars"),
    [
        ("host", {}, f"local:{sys.prefix}/lib/"),
        ("host:/opt/env", {}, "local:/opt/env/lib/"),
        ("host:/opt/env", {JARS: "hdfs://a/*"}, None),
        ("host:/opt/env", {"spark.yarn.archive": "hdfs://a/b.zip"}, None),
        ("archive:hdfs://a/env.tar.gz", {}, None),
    ],
)
def test_spark_is_that_of_the_hosts_where_they_have_one(
    tmp_path: Path, python: str, conf: dict[str, str], jars: str | None
) -> None:
    found = yarn_conf(Settings(home=tmp_path, executor_python=python), conf).get(JARS)
    assert (found is None) == (jars is None)
    assert found is None or jars is None or (found.startswith(jars) and found.endswith("/pyspark/jars/*"))


def test_the_file_of_kafka_clients_is_sent_and_its_content_is_in_no_argument(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.password=secret")
    conf = {"spark.yarn.dist.files": "hdfs://a/other.json", "spark.driver.memoryOverhead": "3g"}
    found = yarn_conf(Settings(home=tmp_path, kafka_client=file), conf)
    assert found["spark.yarn.dist.files"] == f"file://{file},hdfs://a/other.json"
    for name in ("spark.executorEnv.", "spark.yarn.appMasterEnv."):
        assert found[f"{name}STATEWARD_KAFKA_CLIENT"] == "client.properties"
    assert "secret" not in str(found)
    assert "spark.driver.memoryOverhead" not in found, "what the YAML says stays"


def test_yarn_starts_one_attempt_that_is_found_by_its_tag() -> None:
    conf = {
        "spark.yarn.tags": "theirs",
        "spark.pyspark.python": "python3",
        "spark.executorEnv.PATH": "env/bin:/bin",
        "spark.yarn.maxAppAttempts": "5",
    }
    found = cluster_mode_conf("s", "20261126T05-A", conf)
    assert found["spark.yarn.tags"] == "stateward-20261126t05-a,theirs"
    assert found["spark.yarn.maxAppAttempts"] == "1"
    assert found["spark.pyspark.driver.python"] == "python3"
    assert found["spark.yarn.appMasterEnv.PATH"] == "env/bin:/bin"
