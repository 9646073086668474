"""Spark's files on a local disk, without a process forked for each.

Hadoop sets the permissions of every file and folder that it makes. Without its native library, which
Spark does not ship, it forks a `chmod` for that, eight in a batch (docs/tuning.md). The library
hadoop-bare-naked-local-fs does it in Java.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stateward.contract.names import is_local

_JAR = "hadoop-bare-naked-local-fs-*.jar"
_CLASS_PATH = "spark.driver.extraClassPath"
_FILE_SYSTEM = "spark.hadoop.fs.file.impl"


def local_files_conf(jars: Path, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a driver that is its own executor; none for a cluster.

    Args:
        jars: The folder with `spark/`.
        master: Where Spark runs. Executors of a cluster open files before they have the driver's JARs.
        conf: What is set otherwise. Its class path is kept, and a file system that it names is left alone.
    """
    found = sorted((jars / "spark").glob(_JAR))
    if not is_local(master) or not found or _FILE_SYSTEM in conf:
        return {}
    # `spark-submit` opens files before it adds `--jars`, so the class has to be there from the start.
    class_path = os.pathsep.join(filter(None, [str(found[-1]), conf.get(_CLASS_PATH, "")]))
    return {
        _CLASS_PATH: class_path,
        _FILE_SYSTEM: "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    }
