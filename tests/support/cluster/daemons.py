"""Spark's standalone master and workers, and HDFS, as daemons of hosts (`hosts.py`)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from stateward.platform.jars.fetch import fetch, read_lock
from stateward.project.settings import CHECKOUT, Settings
from tests.support.cluster.hosts import OWN, PYTHON, Host
from tests.support.waiting import PATIENCE_S, wait_until

JARS_LOCK = CHECKOUT / "tests" / "cluster" / "jars.lock"
JARS = CHECKOUT / "var" / "cluster" / "jars"
"""What `make setup` does not fetch."""

SPARK_PORT = 7077
HDFS_PORT = 8020

_LIB = PYTHON / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
_SPARK = _LIB / "site-packages" / "pyspark"
_HADOOP = OWN / "etc" / "hadoop"
_LOG4J = """\
status = WARN
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""


def fetch_jars() -> None:
    """Fetch the JARs of the daemons, once for a checkout."""
    fetch(read_lock(JARS_LOCK), JARS, Settings().maven_repository)


def start_master(host: Host) -> str:
    """Start a standalone master, and return its address for drivers."""
    _start_spark(host, "Master", "--port", SPARK_PORT, "--webui-port", 8080)
    master = f"spark://{host.address}:{SPARK_PORT}"
    _wait_for(host, "Master.log", f"Starting Spark master at {master}")
    return master


def start_worker(host: Host, master: str, *, cores: int = 6, memory: str = "6g") -> None:
    """Start a worker, and wait until the master has it.

    It offers more than the machine may have: the executors of tests are small, and many of them wait.
    """
    limits = ("--cores", cores, "--memory", memory, "--work-dir", OWN / "work")
    _start_spark(host, "Worker", *limits, master)
    _wait_for(host, "Worker.log", "Successfully registered with master")


def _start_spark(host: Host, role: str, *arguments: object) -> None:
    environment = {
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": host.address,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(OWN / "local"),
    }
    main = f"org.apache.spark.deploy.{role.lower()}.{role}"
    launcher = _SPARK / "bin" / "spark-class"
    host.start(f"{role}.log", environment, launcher, main, "--host", host.address, *arguments)


def start_hdfs(host: Host) -> str:
    """Start a name node and a data node on one host, and return the address of the file system."""
    shutil.copytree(JARS / "hdfs", host.folder / "jars")
    folder = host.folder / "etc" / "hadoop"
    folder.mkdir()
    address = f"hdfs://{host.address}:{HDFS_PORT}"
    (folder / "core-site.xml").write_text(_xml({"fs.defaultFS": address}))
    (folder / "log4j2.properties").write_text(_LOG4J)
    (folder / "hdfs-site.xml").write_text(
        _xml(
            {
                "dfs.replication": "1",
                "dfs.namenode.name.dir": f"file://{OWN}/name",
                "dfs.datanode.data.dir": f"file://{OWN}/data",
                # Hosts of a test have no name server that knows them.
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.permissions.enabled": "false",
                "dfs.namenode.safemode.min.datanodes": "1",
            }
        )
    )
    node = "org.apache.hadoop.hdfs.server"
    host.run(*_java(), f"{node}.namenode.NameNode", "-format", "-nonInteractive")
    host.start("NameNode.log", {}, *_java(), f"{node}.namenode.NameNode")
    _wait_for(host, "NameNode.log", "NameNode RPC up at")
    host.start("DataNode.log", {}, *_java(), f"{node}.datanode.DataNode")
    _wait_for(host, "NameNode.log", "Safe mode is OFF")
    return address


def _java() -> list[str]:
    class_path = f"{_HADOOP}:{OWN}/jars/*:{_SPARK}/jars/*"
    return ["java", "-Xmx256m", f"-Dlog4j2.configurationFile={_HADOOP}/log4j2.properties", "-cp", class_path]


def _xml(properties: dict[str, str]) -> str:
    found = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    return f"<configuration>{found}</configuration>"


def _wait_for(host: Host, log: str, words: str) -> None:
    file: Path = host.folder / log

    def found() -> bool:
        assert not host.has_ended(), f"a daemon has ended: {host.logs()}"
        return words in file.read_text(errors="replace")

    wait_until(found, PATIENCE_S, lambda: f"{words!r} in {host.logs()}")
