"""What the executors of a cluster are sent: the code of the driver, and their Python environment."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stateward.contract.names import is_kubernetes, is_local
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.releases.code_zip import zip_code
from stateward.project.layout import Layout
from stateward.project.project import PACKAGE
from stateward.project.settings import LIBRARY, Settings

PYTHONPATH = "spark.executorEnv.PYTHONPATH"

_PY_FILES = "spark.submit.pyFiles"
ARCHIVES = "spark.archives"
PYTHON = "spark.pyspark.python"
DRIVER_PYTHON = "spark.pyspark.driver.python"
PATH = "spark.executorEnv.PATH"
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAME = "python3"
_IMAGE = "spark.kubernetes.container.image"
_TEMPLATE = "spark.kubernetes.executor.podTemplateFile"
_OWN_VOLUMES = "spark.kubernetes.driver.ownPersistentVolumeClaim"
# The folder in which an executor unpacks the archive.
_UNPACKED = "environment"
# What comes after ours if it is set otherwise too; of the others that wins.
_EXTENDED = frozenset({_PY_FILES, PYTHONPATH, ARCHIVES, PATH})


def cluster_conf(
    settings: Settings, master: str, conf: Mapping[str, str], code: Path | None = None
) -> dict[str, str]:
    """Return the settings that send code and environment to executors; none for a local master.

    Args:
        settings: Which Python environment the executors have, and where the code of jobs is.
        master: Where Spark runs.
        conf: What is set otherwise, which is kept: its files and paths come after ours, its Python wins.
        code: The folder of a release with the packages `spark_jobs` and `stateward`; the deployed code of
            the project, and the library as it is here, without it.

    Raises:
        LaunchError: This kind of environment is not for this kind of cluster, or the code cannot be packed.
    """
    if is_local(master):
        return {}
    if code is None:
        packages, folder = (settings.jobs, LIBRARY), Layout.of(settings).py_files_dir
    else:
        packages, folder = (code / PACKAGE, code / LIBRARY.name), code
    try:
        sent = zip_code(packages, folder)
    except OSError as error:
        raise LaunchError(f"expected to pack the code for the cluster's executors, found {error}") from error
    found = {
        _PY_FILES: _joined(",", str(sent), conf.get(_PY_FILES)),
        # Spark starts the daemon of the Python workers before it puts `py-files` on their path. The name is
        # relative to the working directory of an executor, into which Spark fetches the file.
        PYTHONPATH: _joined(":", sent.name, conf.get(PYTHONPATH)),
        **_environment(settings, master, conf),
    }
    return {name: value for name, value in found.items() if name not in conf or name in _EXTENDED}


def _environment(settings: Settings, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    asked = settings.executor_python
    kind, _, what = asked.partition(":")
    # A name and not a path: Spark starts the same Python for executors and, where a batch is planned, on the
    # driver's host, with the same PATH. So the folder of this Python is on it too, after the executors' own.
    by_name = {PYTHON: _NAME, DRIVER_PYTHON: sys.executable}
    if kind == "archive":
        archives = _joined(",", f"{what}#{_UNPACKED}", conf.get(ARCHIVES))
        return {ARCHIVES: archives, **_path(_UNPACKED, conf), **by_name}
    if kind == "image":
        if not is_kubernetes(master):
            raise LaunchError(
                f"executor_python: expected {asked!r} with a Kubernetes master, found {master!r}, where"
                " executors have no image. Use host or archive (docs/spark-and-storage.md)."
            )
        # A driver has no volumes of its own, and no right to look for some at its end.
        return {_IMAGE: what, _OWN_VOLUMES: "false", **by_name, **_template(settings)}
    return {**_path(what, conf), **by_name} if what else {}


def _template(settings: Settings) -> dict[str, str]:
    return {} if settings.pod_template is None else {_TEMPLATE: str(settings.pod_template)}


def _path(environment: str, conf: Mapping[str, str]) -> dict[str, str]:
    own = Path(sys.executable).parent
    return {PATH: f"{environment}/bin:{own}:{conf.get(PATH, _USUAL_PATH)}"}


def _joined(separator: str, *parts: str | None) -> str:
    return separator.join(filter(None, parts))


def conf_arguments(conf: Mapping[str, str]) -> Sequence[str]:
    """Return settings as arguments of `spark-submit`."""
    return [part for setting in conf.items() for part in ("--conf", "=".join(setting))]
