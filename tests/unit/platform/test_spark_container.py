"""The entry point of Spark's pods: what it makes of the arguments and variables that Spark sets."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from stateward.platform.spark_container import command

HOME = "/opt/spark"
MODULE = "stateward.platform.spark_container"
# As Spark 4.2 sets them in an executor's pod.
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-77",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_EXECUTOR_POD_NAME": "a-pod",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def test_a_driver_is_submitted_in_client_mode_with_what_spark_says() -> None:
    found = command(
        [
            "driver",
            "--properties-file",
            "/opt/spark/conf/spark.properties",
            "local:///driver.py",
            "an argument",
        ],
        {"SPARK_DRIVER_BIND_ADDRESS": "10.1.2.3"},
        HOME,
    )
    assert found == [
        *("/opt/spark/bin/spark-submit", "--deploy-mode", "client"),
        *("--conf", "spark.driver.bindAddress=10.1.2.3"),
        *("--properties-file", "/opt/spark/conf/spark.properties", "local:///driver.py", "an argument"),
    ]


def test_an_executor_is_the_backend_with_the_options_in_their_order() -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number} of 12" for number in range(12)}
    java, *rest = command(["executor"], {**EXECUTOR, **options, "SPARK_JAVA_OPT_X": "no option"}, HOME)
    assert java == "java"
    assert rest[:12] == [f"-Dn={number} of 12" for number in range(12)]
    assert rest[12:16] == ["-Xms1024m", "-Xmx1024m", "-cp", "/opt/spark/conf:/opt/spark/jars/*"]
    assert rest[16].endswith(".KubernetesExecutorBackend")
    given = dict(zip(rest[17::2], rest[18::2], strict=True))
    assert given == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-77",
        "--hostname": "10.1.2.4",
        "--resourceProfileId": "0",
        "--podName": "a-pod",
    }


def test_java_and_further_class_paths_are_those_of_the_image() -> None:
    more = {"JAVA_HOME": "/jdk", "HADOOP_CONF_DIR": "/hadoop", "SPARK_EXTRA_CLASSPATH": "/more.jar"}
    found = command(["executor"], {**EXECUTOR, **more}, HOME)
    assert found[0] == "/jdk/bin/java"
    assert found[found.index("-cp") + 1] == "/opt/spark/conf:/hadoop:/opt/spark/jars/*:/more.jar"


def test_the_executors_program_is_in_pyspark() -> None:
    (jar,) = (Path(pyspark.__path__[0]) / "jars").glob("spark-kubernetes_*.jar")
    name = command(["executor"], EXECUTOR, HOME)[-15]
    assert f"{name.replace('.', '/')}.class" in zipfile.ZipFile(jar).namelist()


@pytest.mark.parametrize("arguments", [["python", "-V"], ["drivers"]])
def test_anything_else_is_a_command(arguments: list[str]) -> None:
    assert command(arguments, {}, HOME) == arguments


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return subprocess.run(
        [sys.executable, "-m", MODULE, *arguments],
        env={**own, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_command_takes_the_place_of_the_process_and_has_the_home_of_spark() -> None:
    found = run("sh", "-c", "echo $SPARK_HOME; exit 7")
    assert (found.returncode, found.stdout) == (7, f"{pyspark.__path__[0]}\n")


def test_a_missing_variable_is_named() -> None:
    found = run("executor", SPARK_EXECUTOR_MEMORY="1g")
    assert found.returncode == 1
    assert "expected the variable 'SPARK_DRIVER_URL' from Spark in this pod, found none" in found.stderr
