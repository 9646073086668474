"""The archive of the classes that Spark's JVM loads, so that each start maps them instead of reading JARs.

The JVM's own feature (https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html). An archive is for
one Java and one class path; with others the JVM ignores it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from stateward.control.launchers.executor_dependencies import conf_arguments
from stateward.control.launchers.launch import spark_home
from stateward.control.launchers.local_jvm import DEFAULT_OPTIONS, class_archive, local_jvm_conf
from stateward.platform.jars.java import find_java

# Written by `make class-list` from the JVMs of drivers, validations and state operations. A class that is not
# in the JARs is left out.
CLASS_LIST = Path(__file__).with_name("classes.lst.gz")
_TIMEOUT_S = 600


class ClassArchiveError(RuntimeError):
    """The JVM did not write the archive."""


def archive_classes(jars: Path) -> bool:
    """Write the archive of classes for this Java and these JARs; takes about 20 s.

    Args:
        jars: The folder with `spark/`.

    Returns:
        Whether it was written; not if it is there already.

    Raises:
        ClassArchiveError: The JVM did not write it; drivers start without it.
        JavaNotFoundError: There is no Java.
    """
    archive, java, spark = class_archive(jars), find_java(), Path(spark_home())
    made_for, key = archive.with_name(f"{archive.name}.key"), _key(java, [jars / "spark", spark / "jars"])
    if archive.is_file() and made_for.is_file() and made_for.read_text() == key:
        return False
    # Beside the archive, so that moving it there is a rename.
    with tempfile.TemporaryDirectory(dir=jars, prefix=".archiving-") as folder:
        written = _dump(jars, java, spark, Path(folder))
        made_for.unlink(missing_ok=True)
        written.replace(archive)
    made_for.write_text(key)
    return True


def _dump(jars: Path, java: Path, spark: Path, folder: Path) -> Path:
    names, archive = folder / "classes.lst", folder / "classes.jsa"
    names.write_bytes(gzip.decompress(CLASS_LIST.read_bytes()))
    options = f"-Xshare:dump -XX:SharedClassListFile='{names}' -XX:SharedArchiveFile='{archive}'"
    # Only `spark-submit` knows the class path of a driver.
    conf = local_jvm_conf(jars, "local", {}) | {DEFAULT_OPTIONS: f"{options} -XX:+UseSerialGC -Xlog:cds=error"}
    command = [str(spark / "bin" / "spark-submit"), "--master", "local", *conf_arguments(conf), "--version"]
    environment = {**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(spark)}
    try:
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClassArchiveError(f"expected an archive of Spark's classes from {java}, found {error}") from error
    if run.returncode or not archive.is_file():
        said = (run.stderr or run.stdout).strip().splitlines()[-1:] or ["nothing"]
        raise ClassArchiveError(
            f"expected an archive of Spark's classes from {java}, found code {run.returncode}: {said[0]}"
        )
    return archive


def _key(java: Path, folders: list[Path]) -> str:
    """The list of classes, and what the JVM compares: itself, and each JAR's name, size and time."""
    release, classes = java / "release", hashlib.sha256(CLASS_LIST.read_bytes()).hexdigest()
    parts = [str(java), release.read_text() if release.is_file() else "", classes]
    for folder in folders:
        for jar in sorted(folder.glob("*.jar")):
            found = jar.stat()
            parts.append(f"{jar} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
