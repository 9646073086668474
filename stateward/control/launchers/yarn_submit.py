"""What a driver or a job on YARN is submitted with, beside what every cluster is sent."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from stateward.contract.names import ENV_DRIVER_RUN_ID, ENV_DRIVER_STREAM, ENV_KAFKA_CLIENT
from stateward.control.launchers.executor_dependencies import ARCHIVES, DRIVER_PYTHON, PATH, PYTHON
from stateward.control.launchers.yarn_driver import tag_of
from stateward.project.settings import Settings

_JARS, _JARS_ARCHIVE = "spark.yarn.jars", "spark.yarn.archive"
_FILES, _TAGS = "spark.yarn.dist.files", "spark.yarn.tags"
_MASTER_ENV = "spark.yarn.appMasterEnv."
# By default a container has a tenth of the heap beside it, 384 MB at least; YARN ends one that takes more.
# The processes of Python that run and plan a stream take 800 MB in the driver's and 400 MB in an executor's,
# where the store of states has 128 MB in addition.
_OVERHEAD = {"spark.driver.memoryOverhead": "1280m", "spark.executor.memoryOverhead": "1g"}
_LIB = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/pyspark/jars"


def is_yarn(master: str) -> bool:
    """Whether a master is YARN."""
    return master == "yarn" or master.startswith("yarn://")


def yarn_conf(settings: Settings, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a driver or a job, whatever its deploy mode.

    Args:
        settings: Which Python environment the containers have, and the file with settings of Kafka clients.
        conf: What is set otherwise. It is kept, and files and tags of both are sent.
    """
    found = {name: size for name, size in _OVERHEAD.items() if name not in conf}
    kind, _, folder = settings.executor_python.partition(":")
    if kind == "host" and not {_JARS, _JARS_ARCHIVE} & conf.keys():
        # Otherwise Spark sends 400 MB of its own JARs with each start.
        found[_JARS] = f"local:{Path(folder or sys.prefix) / _LIB}/*"
    if archives := conf.get(ARCHIVES):
        # `spark.archives` reaches executors only, and the driver may be in a container too.
        found["spark.yarn.dist.archives"] = archives
    if settings.kafka_client is not None:
        # A copy that YARN keeps readable for the application's user alone.
        name = settings.kafka_client.name
        found[_FILES] = ",".join(filter(None, [f"file://{settings.kafka_client}", conf.get(_FILES)]))
        found[f"spark.executorEnv.{ENV_KAFKA_CLIENT}"] = name
        found[f"{_MASTER_ENV}{ENV_KAFKA_CLIENT}"] = name
    return found


def cluster_mode_conf(stream: str, run_id: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a driver that runs in the container of its application master.

    Args:
        stream: The stream's name.
        run_id: The launch.
        conf: What is set otherwise, that of `cluster_conf` included.
    """
    found = {
        "spark.yarn.submit.waitAppCompletion": "false",
        # YARN would start a second driver by itself, without the checks of a start.
        "spark.yarn.maxAppAttempts": "1",
        _TAGS: ",".join(filter(None, [tag_of(run_id), conf.get(_TAGS)])),
        f"{_MASTER_ENV}{ENV_DRIVER_STREAM}": stream,
        f"{_MASTER_ENV}{ENV_DRIVER_RUN_ID}": run_id,
        f"{_MASTER_ENV}PYTHONUNBUFFERED": "1",
    }
    if PATH in conf:
        found[f"{_MASTER_ENV}PATH"] = conf[PATH]
    if PYTHON in conf:
        # The driver has the Python of the executors, and not that of the host which submits.
        found[DRIVER_PYTHON] = conf[PYTHON]
    return found
