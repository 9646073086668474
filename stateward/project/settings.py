"""Settings: everything that differs between machines, from the environment or Airflow's configuration."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from stateward.contract.names import ENV_PREFIX
from stateward.project.airflow_options import AirflowOptions, base_url, dags_folder

LIBRARY = Path(__file__).resolve().parents[1]
"""The folder of the package `stateward`."""

CHECKOUT = LIBRARY.parent
"""The folder that holds the package: the repository, a project itself, or the installed packages."""

# Linux alone knows which of the cores are this process's.
_HAS_AFFINITY = hasattr(os, "sched_getaffinity")

_SECRETS = ("metrics_token", "mask_secret")
_MAY_BE_EMPTY = ("kafka_client", "create_topics_at", "savepoints", "storage_conn_id", *_SECRETS)

Port = Annotated[int, Field(ge=1, le=65535)]
# Parts run in other working directories than the shell the setting was typed in.
AbsolutePath = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
Url = Annotated[str, AfterValidator(lambda url: url.rstrip("/"))]


def connect_host(bind_host: str) -> str:
    """Return the host by which this machine reaches a server that listens on `bind_host`."""
    return "localhost" if bind_host in ("0.0.0.0", "::") else bind_host


def _file_uri(path: Path) -> str:
    # Not Path.as_uri(): fsspec takes a percent sign literally, but Spark and deltalake accept a space.
    return f"file://{path}"


def _as_uri(value: str) -> str:
    # A bare path is accepted, but Spark, deltalake and fsspec agree only on URIs.
    return (value if "://" in value else _file_uri(Path(value).expanduser().absolute())).rstrip("/")


def is_project(folder: Path) -> bool:
    """Whether a folder is laid out as a project."""
    return (folder / "include" / "streams").is_dir()


def library_path() -> tuple[str, ...]:
    """Return what `PYTHONPATH` needs for a child to import this library: nothing if it is installed."""
    return (str(CHECKOUT),) if is_project(CHECKOUT) else ()


def python_path() -> list[str]:
    """Return the `PYTHONPATH` of a child of this process that imports this library."""
    return [*library_path(), *filter(None, [os.environ.get("PYTHONPATH")])]


def _default_project() -> Path:
    here = Path.cwd()
    likely = (here, *here.parents, CHECKOUT, dags_folder().parent)
    return next((folder for folder in likely if is_project(folder)), here)


def _in_project(*path: str) -> Callable[[dict[str, Any]], Path]:
    return lambda values: Path(values["project"], *path)


def _default_bootstrap(values: dict[str, Any]) -> str:
    # A port that is none is missing here with pydantic 2.11, and reported with every version.
    return f"localhost:{values.get('kafka_port')}"


def _default_embedded(values: dict[str, Any]) -> bool:
    return _is_here(values["kafka_bootstrap"], values["bind_host"], values["kafka_port"])


def _is_here(bootstrap: str, bind_host: str, port: int) -> bool:
    """Whether an address is that of the broker which `up` starts on this machine."""
    here = {"localhost", "127.0.0.1", "[::1]", bind_host, socket.gethostname()}
    return bootstrap in {f"{host}:{port}" for host in here}


def _default_internal_url(values: dict[str, Any]) -> str:
    # Below the same path: without it Airflow does not find what is mounted, such as the API of its tasks.
    path = urlsplit(values["airflow_url"]).path
    return f"http://{connect_host(values['bind_host'])}:{values['airflow_port']}{path}"


class Settings(BaseSettings):
    """Where things live and which ports they use.

    Each field is read from `STATEWARD_<FIELD>`, and then from the section `[stateward]` of Airflow's
    configuration; an explicit argument wins over both. Instances are immutable, so that a process sees one
    set of settings for its whole life.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore")

    project: AbsolutePath = Field(
        default_factory=_default_project,
        description="folder of the project; by default the one in whose folder a command is called, or that"
        " has Airflow's folder of DAGs (docs/your-project.md)",
    )
    home: AbsolutePath = Field(
        default_factory=_in_project("var"), description="folder that holds all state of one installation"
    )
    data: Annotated[str, AfterValidator(_as_uri)] = Field(
        default_factory=lambda values: _file_uri(Path(values["home"]) / "data"),
        description="URI under which tables, checkpoints, leases and status live",
    )
    savepoints: Annotated[str, AfterValidator(_as_uri)] | None = Field(
        default=None, description="URI of another storage, for savepoints"
    )
    seed_roots: str = Field(
        default="",
        description="URIs of folders, with commas between, below which tables for `state seed` may lie,"
        " besides those below `data` (docs/state-operations.md)",
    )
    jars: AbsolutePath = Field(
        default_factory=_in_project("jars"), description="folder with spark/ and kafka/ JARs"
    )
    jobs: AbsolutePath = Field(
        default_factory=_in_project("spark_jobs"), description="folder with the code of the drivers"
    )
    streams: AbsolutePath = Field(
        default_factory=_in_project("include", "streams"), description="folder with one YAML per stream"
    )
    notifiers: AbsolutePath = Field(
        default_factory=_in_project("include", "notifiers.yaml"),
        description="YAML file that lists the notifiers of incidents (docs/alerts.md)",
    )
    maintenance: AbsolutePath = Field(
        default_factory=_in_project("include", "maintenance.yaml"),
        description="YAML file that says how long each table keeps its history (docs/maintenance.md)",
    )
    dag_prefix: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9_.-]{0,100}$",
        description="what the ids of all DAGs begin with, where other DAGs have the same",
    )
    resolve_after_s: float = Field(
        default=300.0,
        ge=0,
        description="how long a stream has to be well until its incident is over, seconds",
    )
    maven_repository: str | None = Field(
        default=None,
        description="address of a Maven repository to fetch JARs from, instead of the public one",
    )

    bind_host: str = Field(default="127.0.0.1", description="address the embedded servers listen on")
    kafka_port: Port = Field(default=19092, description="embedded broker, clients")
    kafka_controller_port: Port = Field(default=19093, description="embedded broker, KRaft controller")
    kafka_published_as: str | None = Field(
        default=None,
        description="address, such as localhost:9092, by which clients elsewhere reach the embedded broker at"
        " a second listener; without it there is none",
    )
    kafka_published_port: Port = Field(default=19094, description="embedded broker, its second listener")
    kafka_bootstrap: str = Field(
        default_factory=_default_bootstrap, description="bootstrap servers that clients use"
    )
    embedded: bool = Field(
        default_factory=_default_embedded,
        description="whether `up` starts a broker; by default if `kafka_bootstrap` is that broker's address",
    )
    create_topics_at: str | None = Field(
        default=None,
        description="bootstrap servers of the cluster in which missing topics are created: the same as"
        " `kafka_bootstrap`; in the broker that `up` starts they are without it (docs/kafka.md)",
    )
    kafka_client: AbsolutePath | None = Field(
        default=None,
        description="file with settings of the Kafka clients, such as those of TLS and SASL (docs/kafka.md)",
    )
    kafka_conn_id: str = Field(
        default="kafka_default",
        description="Airflow connection, of the Kafka provider's type, that names the cluster where"
        " `kafka_bootstrap` is not set (docs/kafka.md)",
    )
    kafka_heap_mb: int = Field(default=512, ge=128, description="heap of the embedded broker, MiB")

    airflow_port: Port = Field(default=18080, description="Airflow UI and REST API")
    airflow_worker_log_port: Port = Field(default=18793, description="task logs, served by the scheduler")
    airflow_triggerer_log_port: Port = Field(default=18794, description="trigger logs")
    airflow_url: Url = Field(
        default_factory=lambda values: base_url() or f"http://localhost:{values['airflow_port']}",
        description="URL of Airflow for people and the command line; by default `base_url` of `[api]`, but"
        " for `stateward up` its own address",
    )
    airflow_internal_url: Url = Field(
        default_factory=_default_internal_url,
        description="where tasks and the command line reach the API server",
    )
    supervised_by: str | None = Field(
        default=None,
        description="what runs the parts instead of `stateward up`, such as Docker Compose",
    )
    spark_conn_id: str = Field(
        default="spark_default", description="Airflow connection that names the master"
    )
    storage_conn_id: str | None = Field(default=None, description="Airflow connection with the keys of S3")
    executor_python: str = Field(
        default="host",
        pattern=r"^(host(:/.+)?|archive:.+|image:.+)$",
        description="Python environment of a cluster's executors: `host` or `host:/FOLDER`, what is installed"
        " on each host; `archive:URI`; `image:NAME` (docs/spark-and-storage.md)",
    )

    pod_template: AbsolutePath | None = Field(
        default=None,
        description="YAML file with a template of the pods of drivers and executors on Kubernetes, such as"
        " for what they have from Secrets (docs/kubernetes.md)",
    )

    # Kept out of `environment`, and so out of the file that the supervisor keeps.
    metrics_token: SecretStr | None = Field(
        default=None,
        exclude=True,
        description="bearer token of Prometheus, for the metrics; without one they are for users only",
    )
    mask_secret: SecretStr | None = Field(
        default=None,
        exclude=True,
        description="secret by which values of personal columns are masked (docs/quality.md); without it one"
        " is made up, and kept in the file mask-secret under the home",
    )

    starts_at_once: int = Field(
        default_factory=lambda: len(os.sched_getaffinity(0)) if _HAS_AFFINITY else os.cpu_count() or 1,
        ge=1,
        description="how many drivers may start on one host at the same time; by default as many as it has"
        " cores",
    )
    start_timeout_s: float = Field(default=180.0, gt=0, description="how long `up` waits for a part, seconds")
    drain_timeout_s: float = Field(
        default=45.0, gt=0, description="between SIGTERM and SIGKILL of a driver, seconds"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return what a field is read from, first come first."""
        return init_settings, env_settings, AirflowOptions(settings_cls)

    @field_validator(*_MAY_BE_EMPTY, mode="before")
    @classmethod
    def _none_if_empty(cls, value: object) -> object:
        # Compose passes on an unset variable as an empty one, and an empty token would be everybody's.
        return value or None

    def dag_id(self, name: str) -> str:
        """Return the id of a DAG: its name after the prefix."""
        return f"{self.dag_prefix}{name}"

    @property
    def suites(self) -> Path:
        """Folder with the suites of the tables."""
        return self.project / "include" / "quality"

    @property
    def may_create_topics(self) -> bool:
        """Whether missing topics are created: in the broker that `up` starts, or where that is asked for."""
        is_ours = self.embedded and _is_here(self.kafka_bootstrap, self.bind_host, self.kafka_port)
        return is_ours or self.create_topics_at == self.kafka_bootstrap

    @property
    def names_kafka_connection(self) -> bool:
        """Whether Kafka is reached by a connection that a setting names, and which therefore has to exist."""
        return {"kafka_conn_id", "kafka_bootstrap"} & self.model_fields_set == {"kafka_conn_id"}

    @property
    def roots_of_seeds(self) -> tuple[str, ...]:
        """URIs of the folders below which a seed's table may lie."""
        return (self.data, *filter(None, (one.strip() for one in self.seed_roots.split(","))))

    def environment(self) -> dict[str, str]:
        """Return these settings as `STATEWARD_*` variables, for the environment of a child process.

        Secrets are left out: a child has them from the environment that it inherits, or not at all.
        """
        values = self.model_dump(mode="json", exclude_none=True)
        return {
            f"{ENV_PREFIX}{name.upper()}": str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in values.items()
        }
