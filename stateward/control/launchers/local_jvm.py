"""The JVM of a driver that is its own executor: its archived classes, and its files on a local disk.

Hadoop sets the permissions of every file and folder that it makes. Without its native library, which
Spark does not ship, it forks a `chmod` for that, eight in a batch (docs/tuning.md). The library
hadoop-bare-naked-local-fs does it in Java.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from stateward.contract.names import is_local

DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"

_JAR = "hadoop-bare-naked-local-fs-*.jar"
_CLASS_PATH = "spark.driver.extraClassPath"
_FILE_SYSTEM = "spark.hadoop.fs.file.impl"
# Where it was made for, the archive is mapped as it is: JVMs share its pages, and read those they use.
_NOT_MOVED = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"


def class_archive(jars: Path) -> Path:
    """Return where the archive of Spark's classes is; the JVM ignores one that does not fit."""
    return jars / "classes.jsa"


def local_jvm_conf(jars: Path, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a driver that is its own executor; none for a cluster.

    Args:
        jars: The folder with `spark/` and the archive of classes.
        master: Where Spark runs. Executors of a cluster open files before they have the driver's JARs.
        conf: What is set otherwise. Its class path and options are kept, and with a file system that it
            names nothing is set.
    """
    found = sorted((jars / "spark").glob(_JAR))
    if not is_local(master) or not found or _FILE_SYSTEM in conf:
        return {}
    # `spark-submit` opens files before it adds `--jars`, so the class has to be there from the start.
    class_path = os.pathsep.join(filter(None, [str(found[-1]), conf.get(_CLASS_PATH, "")]))
    return {
        _CLASS_PATH: class_path,
        _FILE_SYSTEM: "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        **_archived(class_archive(jars), conf),
    }


def _archived(archive: Path, conf: Mapping[str, str]) -> dict[str, str]:
    if not archive.is_file():
        return {}
    options = [shlex.quote(f"-XX:SharedArchiveFile={archive}"), _NOT_MOVED, conf.get(DEFAULT_OPTIONS)]
    return {DEFAULT_OPTIONS: " ".join(filter(None, options))}
