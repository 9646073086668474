"""The main process of a pod of Spark on Kubernetes, and so the entry point of its image.

Spark starts a pod with the argument `driver` or `executor`, and passes the rest by `SPARK_*` variables. The
package `pyspark` does not have the script that Spark's own images have for that. Run it below `tini`, which
passes a SIGTERM on to the JVM and so to the drain of a driver (`stateward.runtime.driver.signals`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

DRIVER, EXECUTOR = "driver", "executor"

_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
# Each argument of the backend is a variable of the pod.
_BACKEND_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(arguments: Sequence[str], environment: Mapping[str, str], spark_home: str) -> list[str]:
    """Return the command that a container runs.

    Args:
        arguments: Those of the container; anything but `driver` or `executor` is a command itself.
        environment: That of the container.
        spark_home: The folder of Spark, with `bin/` and `jars/`.

    Raises:
        KeyError: A variable that Spark sets for this kind of pod is missing.
    """
    kind, *rest = arguments or [""]
    if kind == DRIVER:
        address = environment["SPARK_DRIVER_BIND_ADDRESS"]
        submit = [f"{spark_home}/bin/spark-submit", "--deploy-mode", "client"]
        return [*submit, "--conf", f"spark.driver.bindAddress={address}", *rest]
    if kind == EXECUTOR:
        memory = environment["SPARK_EXECUTOR_MEMORY"]
        java = f"{environment['JAVA_HOME']}/bin/java" if environment.get("JAVA_HOME") else "java"
        heap = [f"-Xms{memory}", f"-Xmx{memory}"]
        backend = [word for name, value in _BACKEND_ARGUMENTS.items() for word in (name, environment[value])]
        class_path = ["-cp", _class_path(environment, spark_home)]
        return [java, *_java_options(environment), *heap, *class_path, _BACKEND, *backend, *rest]
    return list(arguments) or ["bash"]


def _java_options(environment: Mapping[str, str]) -> list[str]:
    numbers = sorted(int(found[1]) for name in environment if (found := _JAVA_OPTION.fullmatch(name)))
    return [environment[f"SPARK_JAVA_OPT_{number}"] for number in numbers]


def _class_path(environment: Mapping[str, str], spark_home: str) -> str:
    # The folders of configuration first, as in Spark's own images.
    names = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_CLASSPATH")
    after = ("SPARK_EXTRA_CLASSPATH", "SPARK_DIST_CLASSPATH")
    parts = [*(environment.get(name) for name in names), f"{spark_home}/jars/*"]
    return os.pathsep.join(filter(None, [*parts, *(environment.get(name) for name in after)]))


def main(arguments: Sequence[str]) -> None:
    """Become the command of this container.

    Raises:
        SystemExit: PySpark or a variable of Spark is missing.
    """
    # find_spec does not import it.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        sys.exit(f"expected pyspark beside {sys.executable}, found none. Install it in the image.")
    home = os.environ.get("SPARK_HOME") or str(Path(found.origin).parent)
    try:
        run = command(arguments, os.environ, home)
    except KeyError as error:
        sys.exit(f"expected the variable {error} from Spark in this pod, found none.")
    os.execvpe(run[0], run, {**os.environ, "SPARK_HOME": home})


if __name__ == "__main__":
    main(sys.argv[1:])
