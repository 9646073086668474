"""Spark's standalone master and workers, HDFS and YARN, as daemons of hosts (`hosts.py`)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import sqlalchemy

from stateward.platform.jars.fetch import fetch, read_lock
from stateward.project.settings import CHECKOUT, Settings
from tests.support.cluster.hosts import OWN, PYTHON, Host
from tests.support.waiting import PATIENCE_S, wait_until

JARS_LOCK = CHECKOUT / "tests" / "cluster" / "jars.lock"
JARS = CHECKOUT / "var" / "cluster" / "jars"
"""What `make setup` does not fetch."""

SPARK_PORT = 7077
HDFS_PORT = 8020
YARN_PORT = 8088
POSTGRES_PORT = 5432

_OF_HDFS = ("hdfs",)
_OF_YARN = ("hdfs", "yarn")
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


def fetch_jars(sets: Sequence[str] = _OF_HDFS) -> None:
    """Fetch sets of JARs of the daemons, once for a checkout."""
    lock = read_lock(JARS_LOCK)
    fetch({name: lock[name] for name in sets}, JARS, Settings().maven_repository)


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
    address = f"hdfs://{host.address}:{HDFS_PORT}"
    _configure(
        host,
        _OF_HDFS,
        {"core-site.xml": {"fs.defaultFS": address}},
        {
            "hdfs-site.xml": {
                "dfs.replication": "1",
                "dfs.namenode.name.dir": f"file://{OWN}/name",
                "dfs.datanode.data.dir": f"file://{OWN}/data",
                # Hosts of a test have no name server that knows them.
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.permissions.enabled": "false",
                "dfs.namenode.safemode.min.datanodes": "1",
            }
        },
    )
    node = "org.apache.hadoop.hdfs.server"
    host.run(*_java(), f"{node}.namenode.NameNode", "-format", "-nonInteractive")
    host.start("NameNode.log", {}, *_java(), f"{node}.namenode.NameNode")
    _wait_for(host, "NameNode.log", "NameNode RPC up at")
    host.start("DataNode.log", {}, *_java(), f"{node}.datanode.DataNode")
    _wait_for(host, "NameNode.log", "Safe mode is OFF")
    return address


def start_resource_manager(host: Host, hdfs: str) -> str:
    """Start YARN's resource manager, and return the address of its web application."""
    queues = "yarn.scheduler.capacity.root"
    capacity = {
        f"{queues}.queues": "default",
        f"{queues}.default.capacity": "100",
        # By default a tenth of the cluster is for application masters, which drivers are.
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    }
    _configure(host, _OF_YARN, client_conf(host.address, hdfs), {"capacity-scheduler.xml": capacity})
    main = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
    host.start("ResourceManager.log", {}, *_java(), main)
    _wait_for(host, "ResourceManager.log", "Transitioned to active state")
    return f"http://{host.address}:{YARN_PORT}"


def start_node_manager(host: Host, manager: str, hdfs: str, *, cores: int = 4, memory_mb: int = 6144) -> None:
    """Start a node manager, and wait until the resource manager at an address has it."""
    conf = client_conf(manager, hdfs)
    conf["yarn-site.xml"] |= {
        "yarn.nodemanager.hostname": host.address,
        "yarn.nodemanager.local-dirs": str(OWN / "local"),
        "yarn.nodemanager.log-dirs": str(OWN / "containers"),
        "yarn.nodemanager.resource.memory-mb": str(memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(cores),
        # The physical memory of containers is checked, as it is by default.
        "yarn.nodemanager.vmem-check-enabled": "false",
        # The disk of the machine that all hosts are on may be fuller than YARN wants. Without its checks a
        # node manager still refuses such a disk once, when it starts.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    }
    _configure(host, _OF_YARN, conf)
    java = Path(shutil.which("java") or "java").resolve().parents[1]
    main = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
    host.start("NodeManager.log", {"JAVA_HOME": str(java)}, *_java(), main)
    _wait_for(host, "NodeManager.log", "Registered with ResourceManager")


def start_postgres(host: Host, subnet: str, databases: Sequence[str]) -> str:
    """Start PostgreSQL with empty databases, and return its address; it trusts the hosts of the subnet."""
    folder = host.folder / "postgres"
    folder.mkdir()
    user = "postgres"
    shutil.chown(folder, user, user)
    # It refuses to run as root.
    as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    data = OWN / folder.name
    host.run(*as_user, "initdb", "-D", data, "-U", user, "--auth=trust")
    with (folder / "pg_hba.conf").open("a") as file:
        file.write(f"host all all {subnet} trust\n")
    host.start("Postgres.log", {}, *as_user, "postgres", "-D", data, "-h", host.address, "-k", data)
    _wait_for(host, "Postgres.log", "ready to accept connections")
    address = f"postgresql+psycopg2://{user}@{host.address}:{POSTGRES_PORT}"
    server = sqlalchemy.create_engine(f"{address}/{user}", isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        for name in databases:
            connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    server.dispose()
    return address


def client_conf(manager: str, hdfs: str) -> dict[str, dict[str, str]]:
    """Return what clients of YARN and HDFS have in their folder `HADOOP_CONF_DIR`.

    Args:
        manager: The address of the resource manager's host.
        hdfs: The address of the file system.
    """
    yarn = {
        "yarn.resourcemanager.hostname": manager,
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.resourcemanager.webapp.address": f"{manager}:{YARN_PORT}",
    }
    return {"core-site.xml": {"fs.defaultFS": hdfs}, "yarn-site.xml": yarn}


def write_conf(folder: Path, files: Mapping[str, Mapping[str, str]]) -> None:
    """Write configuration files of Hadoop."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, properties in files.items():
        (folder / name).write_text(_xml(properties))


def _configure(host: Host, sets: Sequence[str], *files: Mapping[str, Mapping[str, str]]) -> None:
    fetch_jars(sets)
    for name in sets:
        shutil.copytree(JARS / name, host.folder / "jars", dirs_exist_ok=True)
    folder = host.folder / "etc" / "hadoop"
    for some in files:
        write_conf(folder, some)
    (folder / "log4j2.properties").write_text(_LOG4J)


def _java() -> list[str]:
    class_path = f"{_HADOOP}:{OWN}/jars/*:{_SPARK}/jars/*"
    return ["java", "-Xmx256m", f"-Dlog4j2.configurationFile={_HADOOP}/log4j2.properties", "-cp", class_path]


def _xml(properties: Mapping[str, str]) -> str:
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
