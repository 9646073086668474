"""When the archive of Spark's classes is written, with a program in place of `spark-submit`."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from stateward.control.launchers.local_jvm import class_archive
from stateward.platform.jars import class_archive as module
from stateward.platform.jars.class_archive import ClassArchiveError, archive_classes

# Writes its arguments into the file that the JVM would write.
_WRITES = """#!/bin/sh
path=$(printf '%s' "$*" | sed "s/.*SharedArchiveFile='\\([^']*\\)'.*/\\1/")
printf '%s' "$*" > "$path"
"""
_FAILS = "#!/bin/sh\necho 'Error: the heap is too small' >&2\nexit 1\n"


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pyspark"
    (folder / "bin").mkdir(parents=True)
    (folder / "jars").mkdir()
    (folder / "jars" / "spark-core.jar").write_text("one")
    monkeypatch.setattr(module, "spark_home", lambda: str(folder))
    monkeypatch.setattr(module, "find_java", lambda: tmp_path / "java")
    _submit(folder, _WRITES)
    return folder


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "jars" / "spark").mkdir(parents=True)
    (tmp_path / "jars" / "spark" / "hadoop-bare-naked-local-fs-0.1.0.jar").touch()
    return tmp_path / "jars"


def _submit(spark: Path, script: str) -> None:
    (spark / "bin" / "spark-submit").write_text(script)
    (spark / "bin" / "spark-submit").chmod(0o755)


def test_the_archive_is_for_the_class_path_of_a_driver(spark: Path, jars: Path) -> None:
    assert archive_classes(jars)
    arguments = class_archive(jars).read_text()
    assert f"spark.driver.extraClassPath={jars}/spark/hadoop-bare-naked-local-fs-0.1.0.jar" in arguments
    assert "-Xshare:dump" in arguments


def test_it_is_written_once(spark: Path, jars: Path) -> None:
    assert archive_classes(jars)
    assert not archive_classes(jars)


@pytest.mark.parametrize("changed", ["pyspark/jars/spark-core.jar", "jars/spark/another.jar"])
def test_it_is_written_again_for_other_jars(spark: Path, jars: Path, changed: str) -> None:
    archive_classes(jars)
    (spark.parent / changed).write_text("another")
    assert archive_classes(jars)


def test_it_is_written_again_for_another_java(spark: Path, jars: Path) -> None:
    archive_classes(jars)
    (spark.parent / "java").mkdir()
    (spark.parent / "java" / "release").write_text('JAVA_VERSION="17.0.16"')
    assert archive_classes(jars)


def test_it_is_written_again_for_another_list_of_the_same_size(
    spark: Path, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for name in ("a/One", "a/Two"):
        names = tmp_path / f"{name[2:]}.lst.gz"
        names.write_bytes(gzip.compress(name.encode(), mtime=0))
        monkeypatch.setattr(module, "CLASS_LIST", names)
        written.append(archive_classes(jars))
    assert written == [True, True]
    assert len({path.stat().st_size for path in tmp_path.glob("*.lst.gz")}) == 1


def test_the_error_has_what_a_jvm_said_that_does_not_write_it(spark: Path, jars: Path) -> None:
    _submit(spark, _FAILS)
    with pytest.raises(ClassArchiveError, match="code 1: Error: the heap is too small"):
        archive_classes(jars)
    assert sorted(os.listdir(jars)) == ["spark"]
