"""What a cluster's executors are sent; a local master costs nothing."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from stateward.control.jobs import batch_job
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.launchers.executor_dependencies import PYTHONPATH, cluster_conf
from stateward.control.releases import release as releases
from stateward.project.settings import Settings
from stateward.project.spec import load_spec

STREAM = "user_sessions"
MASTER = "spark://10.0.0.1:7077"
PY_FILES, ARCHIVES = "spark.submit.pyFiles", "spark.archives"
PATH, USUAL = "spark.executorEnv.PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN = Path(sys.executable).parent
PYTHON, DRIVER_PYTHON = "spark.pyspark.python", "spark.pyspark.driver.python"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def with_python(settings: Settings, asked: str) -> Settings:
    return settings.model_copy(update={"executor_python": asked})


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_a_local_master_is_sent_nothing(settings: Settings, master: str) -> None:
    assert cluster_conf(with_python(settings, "archive:hdfs://a/b.tar.gz"), master, {}) == {}
    assert not settings.home.exists()


def test_a_driver_is_submitted_with_the_code_of_its_release(settings: Settings) -> None:
    kept = releases.keep(STREAM, settings)
    conf = cluster_conf(settings, MASTER, {}, kept.code)
    sent = Path(conf[PY_FILES])
    # As long as the release is there, the zip is: executors that come late fetch it from the driver.
    assert sent.parent == kept.code
    assert conf[PYTHONPATH] == sent.name
    names = set(zipfile.ZipFile(sent).namelist())
    held = {f"{file.relative_to(kept.code)}" for file in kept.code.rglob("*.py")}
    assert held <= names
    assert "stateward/runtime/driver/worker_daemon.py" in names
    assert f"spark_jobs/{STREAM}/declaration.py" in names
    assert not [name for name in names if name.startswith(("stateward/airflow", "spark_jobs/fraud_watch"))]
    assert set(conf) == {PY_FILES, PYTHONPATH}, "what is installed on each host is used as it is"


def test_a_job_is_submitted_with_the_deployed_code_and_the_whole_library(settings: Settings) -> None:
    (settings.home / "spark").mkdir(parents=True)
    (settings.home / "spark" / "a.jar").touch()
    with_jars = settings.model_copy(update={"jars": settings.home})

    def conf_of(master: str) -> dict[str, str]:
        command = batch_job.spark_command(
            "state",
            "file:///request",
            kind="state_operation",
            name="x",
            spec=load_spec(STREAM),
            settings=with_jars,
            master=master,
        )
        given = [after for before, after in pairwise(command) if before == "--conf"]
        return dict(one.split("=", 1) for one in given)

    conf = conf_of(MASTER)
    names = zipfile.ZipFile(conf[PY_FILES]).namelist()
    assert {"stateward/quality/validation/validate.py", "spark_jobs/fraud_watch/declaration.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert conf_of("local[2]") == {}


@pytest.mark.parametrize(
    ("asked", "master", "expected"),
    [
        ("host", MASTER, {}),
        (
            "host:/opt/env",
            MASTER,
            {PATH: f"/opt/env/bin:{OWN}:{USUAL}", PYTHON: "python3", DRIVER_PYTHON: sys.executable},
        ),
        (
            "archive:hdfs://a/env.tar.gz",
            "yarn",
            {
                ARCHIVES: "hdfs://a/env.tar.gz#environment",
                PATH: f"environment/bin:{OWN}:{USUAL}",
                PYTHON: "python3",
                DRIVER_PYTHON: sys.executable,
            },
        ),
        (
            "image:registry/app:1",
            "k8s://https://a",
            {
                "spark.kubernetes.container.image": "registry/app:1",
                "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
                PYTHON: "python3",
                DRIVER_PYTHON: sys.executable,
            },
        ),
    ],
)
def test_the_environment_is_one_setting(
    settings: Settings, asked: str, master: str, expected: dict[str, str]
) -> None:
    conf = cluster_conf(with_python(settings, asked), master, {})
    assert {name: value for name, value in conf.items() if name not in (PY_FILES, PYTHONPATH)} == expected


def test_executors_have_the_template_of_the_project_wherever_their_driver_is(settings: Settings) -> None:
    file = settings.home / "pod.yaml"
    own = with_python(settings, "image:a").model_copy(update={"pod_template": file})
    template = "spark.kubernetes.executor.podTemplateFile"
    assert cluster_conf(own, "k8s://https://a", {})[template] == str(file)
    assert cluster_conf(own, "k8s://https://a", {template: "/own.yaml"}).get(template) is None
    assert template not in cluster_conf(with_python(settings, "image:a"), "k8s://https://a", {})


def test_an_image_is_refused_where_executors_have_none(settings: Settings) -> None:
    with pytest.raises(LaunchError, match=r"expected 'image:a' with a Kubernetes master, found 'spark://"):
        cluster_conf(with_python(settings, "image:a"), MASTER, {})


@pytest.mark.parametrize("asked", ["", "conda", "host:relative/python", "archive:", "image:"])
def test_another_environment_is_no_setting(asked: str) -> None:
    with pytest.raises(ValueError, match="executor_python"):
        Settings(executor_python=asked)


def test_files_and_archives_of_the_stream_come_after_ours_and_its_python_wins(settings: Settings) -> None:
    own = {
        PY_FILES: "/own.zip",
        PYTHONPATH: "own.zip",
        ARCHIVES: "/data.tgz",
        PATH: "/own",
        PYTHON: "/own/py",
    }
    conf = cluster_conf(with_python(settings, "archive:/env.tar.gz"), MASTER, own)
    assert conf[PY_FILES].endswith(".zip,/own.zip")
    assert conf[PYTHONPATH].endswith(".zip:own.zip")
    assert conf[ARCHIVES] == "/env.tar.gz#environment,/data.tgz"
    assert conf[PATH] == f"environment/bin:{OWN}:/own"
    assert PYTHON not in conf


@pytest.mark.parametrize("asked", ["host:/nowhere", "archive:/env.tar.gz"])
def test_the_python_of_executors_is_this_one_on_the_drivers_host(settings: Settings, asked: str) -> None:
    """Spark plans the batches of a Python data source there, with the executors' Python and PATH."""
    conf = cluster_conf(with_python(settings, asked), MASTER, {})
    program = "import sys, zlib; print(sys.prefix)"
    done = subprocess.run(
        [conf[PYTHON], "-c", program],
        executable=f"{OWN}/{conf[PYTHON]}",  # where the JVM finds it, by its own PATH
        env={"PATH": conf[PATH]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == sys.prefix
