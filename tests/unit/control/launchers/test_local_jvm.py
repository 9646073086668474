"""The settings of a local driver's JVM; those of a user's own are kept."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stateward.control.launchers.local_jvm import DEFAULT_OPTIONS, class_archive, local_jvm_conf

_JAR = "hadoop-bare-naked-local-fs-0.1.0.jar"


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / _JAR).touch()
    return tmp_path


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_a_local_driver_has_the_class_from_the_start(jars: Path, master: str) -> None:
    conf = local_jvm_conf(jars, master, {})
    assert conf["spark.driver.extraClassPath"] == str(jars / "spark" / _JAR)
    assert conf["spark.hadoop.fs.file.impl"].endswith("BareLocalFileSystem")


def test_a_class_path_of_the_stream_is_kept(jars: Path) -> None:
    conf = local_jvm_conf(jars, "local[2]", {"spark.driver.extraClassPath": "/own/*"})
    assert conf["spark.driver.extraClassPath"] == f"{jars / 'spark' / _JAR}:/own/*"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host"])
def test_a_cluster_keeps_hadoops_own(jars: Path, master: str) -> None:
    assert local_jvm_conf(jars, master, {}) == {}


def test_a_file_system_that_the_stream_names_is_left_alone(jars: Path) -> None:
    assert local_jvm_conf(jars, "local", {"spark.hadoop.fs.file.impl": "its.Own"}) == {}


def test_without_the_jar_nothing_is_set(tmp_path: Path) -> None:
    assert local_jvm_conf(tmp_path, "local", {}) == {}


def test_a_local_driver_maps_the_archive_of_classes_if_there_is_one(jars: Path) -> None:
    class_archive(jars).touch()
    options = local_jvm_conf(jars, "local[2]", {DEFAULT_OPTIONS: "-Down=1"})[DEFAULT_OPTIONS]
    assert options.startswith(f"-XX:SharedArchiveFile={class_archive(jars)} ")
    assert options.endswith(" -Down=1")


def test_a_path_with_a_space_is_one_option(jars: Path) -> None:
    folder = jars / "my jars"
    folder.mkdir()
    (jars / "spark").rename(folder / "spark")
    class_archive(folder).touch()
    options = local_jvm_conf(folder, "local", {})[DEFAULT_OPTIONS]
    assert shlex.split(options)[0] == f"-XX:SharedArchiveFile={class_archive(folder)}"
