"""An Airflow on a host of its own: its processes, its project and its folder are on no other one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateward.cli.streams.airflow_api import AirflowApi, AirflowApiError
from stateward.contract.names import ENV_KAFKA_CLIENT
from stateward.platform.parts.airflow import environment
from stateward.platform.secrets import ADMIN, Secrets
from stateward.project.airflow_options import connection_variable
from stateward.project.settings import CHECKOUT, Settings
from tests.support.cluster import daemons
from tests.support.cluster.hosts import OWN, PYTHON, Host
from tests.support.control.installation import Installation
from tests.support.waiting import PATIENCE_S, wait_until

_PROJECT = OWN / "project"
_PYTHON = PYTHON / "bin" / "python"
_PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
_PORT = 8080
# What a project has, and the library that is not installed on hosts.
_DEPLOYED = ("stateward", "spark_jobs", "include", "dags", "jars/spark")


@dataclass(frozen=True)
class AirflowHost(Installation):
    """An installation whose processes run on another host.

    Attributes:
        host: The host.
        database: The address of Airflow's metadata database.
        keys: The folder with the secrets of Airflow, which belong to a database.
        kafka_client: The file with settings of Kafka clients, of which the host gets a copy.
        connection: The connection `spark_default`.
        conf: What is in its folder `HADOOP_CONF_DIR`, by file.
    """

    host: Host
    database: str
    keys: Path
    kafka_client: Path
    connection: Mapping[str, object]
    conf: Mapping[str, Mapping[str, str]]

    @classmethod
    def on(
        cls,
        host: Host,
        *,
        database: str,
        keys: Path,
        kafka_client: Path,
        connection: Mapping[str, object],
        conf: Mapping[str, Mapping[str, str]],
        **settings: Any,
    ) -> AirflowHost:
        """Describe one; nothing is started."""
        url = f"http://{host.address}:{_PORT}"
        own = Settings(
            project=_PROJECT,
            home=OWN / "home",
            bind_host=host.address,
            airflow_port=_PORT,
            airflow_url=url,
            executor_python=f"host:{PYTHON}",
            kafka_client=OWN / kafka_client.name,
            **settings,
        )
        return cls(own, host, database, keys, kafka_client, connection, conf)

    @property
    def password(self) -> str:
        """Password of the user `admin`."""
        return self._secrets.admin_password

    @property
    def environment(self) -> dict[str, str]:
        """Environment of commands on this machine."""
        return {**super().environment, ENV_KAFKA_CLIENT: str(self.kafka_client)}

    @property
    def project(self) -> Path:
        """The folder of its project, as this machine sees it."""
        return self.host.folder / "project"

    def deploy(self) -> None:
        """Put the project on the host."""
        for name in _DEPLOYED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(CHECKOUT / name, self.project / name, ignore=ignored, dirs_exist_ok=True)

    def start(self) -> None:
        """Start Airflow's processes, and wait until it answers."""
        daemons.write_conf(self.host.folder / "conf", self.conf)
        shutil.copy(self.kafka_client, self.host.folder)
        Secrets.load_or_create(self.keys)
        shutil.copytree(self.keys, self.host.folder / "home" / "airflow")
        self._run("-m", "airflow", "db", "migrate")
        for part in _PARTS:
            self.host.start(f"{part}.log", self._variables(), _PYTHON, "-m", "airflow", part)
        wait_until(self._answers, PATIENCE_S, self.host.logs, poll_s=1)

    def stateward(self, *arguments: str) -> str:
        """Run `stateward` on the host, and return what it says."""
        return self._run("-c", "from stateward.cli.main import main; main()", *arguments)

    def _run(self, *arguments: str) -> str:
        variables = [f"{name}={value}" for name, value in self._variables().items()]
        return self.host.run("env", *variables, _PYTHON, *arguments)

    def _answers(self) -> bool:
        assert not self.host.has_ended(), self.host.logs()
        try:
            with AirflowApi(self.settings.airflow_url, ADMIN, self.password) as api:
                return api.has_dag("stream_user_sessions")
        except AirflowApiError:
            return False

    @property
    def _secrets(self) -> Secrets:
        return Secrets.load_or_create(self.keys)

    def _variables(self) -> dict[str, str]:
        """What `stateward up` gives its processes, but for the paths of this machine."""
        given = environment(self.settings, self._secrets)
        airflow = {name: value for name, value in given.items() if name.startswith("AIRFLOW_")}
        return {
            **{name: value for name, value in airflow.items() if "_CONNECT_ARGS" not in name},
            **self.settings.environment(),
            connection_variable(self.settings.spark_conn_id): json.dumps(self.connection),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database,
            "HADOOP_CONF_DIR": str(OWN / "conf"),
            "PYTHONPATH": str(_PROJECT),
            "JAVA_HOME": given["JAVA_HOME"],
        }
