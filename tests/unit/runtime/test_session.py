"""The settings of a session for object storage, and the Python of its processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from stateward.runtime.session import local_python, s3_conf

CLUSTER = "spark://master:7077"
OF_THE_HOST = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "hidden",
    "AWS_REGION": "eu-central-1",
    "AWS_ENDPOINT_URL": "https://s3.example.org",
    "HOME": "/root",
}


def test_executors_of_a_cluster_get_the_credentials_and_nothing_else() -> None:
    conf = s3_conf(OF_THE_HOST, CLUSTER)
    sent = {name for name in conf if name.startswith("spark.executorEnv.")}
    assert sent == {f"spark.executorEnv.{name}" for name in OF_THE_HOST if name != "HOME"}
    assert not any(name.startswith("spark.executorEnv.") for name in s3_conf(OF_THE_HOST, "local[2]"))


def test_a_pod_does_not_show_the_credentials() -> None:
    conf = s3_conf(OF_THE_HOST, "k8s://https://10.0.0.1:6443")
    assert not {"key", "hidden"} & set(conf.values())
    assert conf["spark.executorEnv.AWS_REGION"] == "eu-central-1"


def test_what_is_secret_is_hidden_on_sparks_pages() -> None:
    conf = s3_conf(OF_THE_HOST, CLUSTER)
    shown = {name for name in conf if not re.search(conf["spark.redaction.regex"], name)}
    assert not {"key", "hidden"} & {conf[name] for name in shown}


def test_a_server_of_ones_own_has_its_bucket_in_the_path() -> None:
    path_style = "spark.hadoop.fs.s3a.path.style.access"
    assert s3_conf(OF_THE_HOST, "local[2]")[path_style] == "true"
    assert path_style not in s3_conf({}, "local[2]")


def test_sparks_processes_on_this_host_start_without_the_archives() -> None:
    """Their Python is the driver's own, with the rest of the import path in its order."""
    environment = {
        **os.environ,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": "/s/python/lib/pyspark.zip:/s/python/lib/py4j-0.10.9.9-src.zip:/a job:/b.zip",
    }
    python = local_python(environment)
    assert python != sys.executable
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.prefix, *sys.argv, sep='|')"
    command = [python, "-c", code, "an argument", "*"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == f"/a job:/b.zip|{sys.prefix}|-c|an argument|*"


def test_the_archives_stay_where_the_jvm_does_not_know_the_drivers_python() -> None:
    assert local_python({}) == sys.executable
    assert local_python({"PYSPARK_DRIVER_PYTHON": "/usr/bin/python3"}) == sys.executable
