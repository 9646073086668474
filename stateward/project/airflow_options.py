"""What Airflow's configuration says, read without importing Airflow, which drivers do not need.

An option is `AIRFLOW__<SECTION>__<OPTION>` in the environment, or stands in `airflow.cfg`.
"""

from __future__ import annotations

import configparser
import functools
import os
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

SECTION = "stateward"

# A task is tried four times, as on a cluster; locally Spark's default is once. When Python workers die, each
# that Spark still keeps in its pool fails one attempt, which would otherwise be a failure of the query.
SPARK_CONNECTION = '{"conn_type": "spark", "host": "local[*,4]"}'
"""The Spark connection of the embedded Airflow, and the example of one that is missing."""

KAFKA_CONNECTION = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "kafka-1.example.com:9093"}}'
"""The example of a Kafka connection that is missing."""

STORAGE_CONNECTION = '{"conn_type": "aws", "login": "<access key>", "password": "<secret>"}'
"""The example of a connection of object storage that is missing."""

_SECTIONS = (SECTION, "core", "api", "database", "secrets", "workers")


class AirflowOptions(PydanticBaseSettingsSource):
    """The section `[stateward]` as a source of settings."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the option of a field; None if there is none."""
        return option(SECTION, field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all options that are set."""
        found = {name: option(SECTION, name) for name in self.settings_cls.model_fields}
        return {name: value for name, value in found.items() if value is not None}


def option(section: str, name: str) -> str | None:
    """Return an option of Airflow's configuration as it is set, without Airflow's default; None if it is not.

    An empty value is none, as for Docker Compose, which passes on an unset variable as an empty one.
    """
    value = os.environ.get(f"AIRFLOW__{section.upper()}__{name.upper()}")
    return value or _file_options(section).get(name) or None


def connection_variable(conn_id: str) -> str:
    """Return the variable of the environment that holds a connection."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def create_connection(conn_id: str, example: str) -> str:
    """Return the remedy for a connection that is missing."""
    return f"Create it under Admin > Connections, or set {connection_variable(conn_id)}='{example}'."


def metadata_database() -> str | None:
    """Return the address of Airflow's metadata database; None if it is given by a command or a secret."""
    address = option("database", "sql_alchemy_conn")
    if address or any(option("database", f"sql_alchemy_conn_{kind}") for kind in ("cmd", "secret")):
        return address
    return sqlite_address(_home() / "airflow.db")


def sqlite_address(file: Path) -> str:
    """Return the address of a SQLite database, as Airflow and SQLAlchemy write it."""
    return f"sqlite:///{file}"


def secrets_backend() -> str | None:
    """Return the class of the secrets backend that tasks ask before the database; None if there is none."""
    return option("workers", "secrets_backend") or option("secrets", "backend")


def dags_folder() -> Path:
    """Return the folder in which Airflow looks for DAGs."""
    return Path(option("core", "dags_folder") or _home() / "dags").expanduser()


def base_url() -> str | None:
    """Return the address at which people reach Airflow; None if it is not configured."""
    url = option("api", "base_url")
    if url and url.startswith("/"):
        # A path alone, which Airflow takes as well.
        return f"http://localhost:{option('api', 'port') or 8080}{url}"
    return url


def _home() -> Path:
    return Path(os.path.expandvars(os.environ.get("AIRFLOW_HOME") or "~/airflow")).expanduser()


def _file_options(section: str) -> dict[str, str]:
    file = Path(os.environ.get("AIRFLOW_CONFIG") or _home() / "airflow.cfg").expanduser()
    try:
        at = file.stat()
    except OSError:
        return {}
    return _sections(file, at.st_mtime_ns, at.st_size).get(section, {})


# Settings are read at every observation, and the file seldom changes.
@functools.lru_cache(maxsize=4)
def _sections(file: Path, _changed_ns: int, _size: int) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(default_section="", strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8"), str(file))
    except OSError:
        return {}
    return {name: _values(parser[name]) for name in _SECTIONS if parser.has_section(name)}


def _values(section: configparser.SectionProxy) -> dict[str, str]:
    # As Airflow reads it: `%%` is a percent sign, and variables of the environment are put in.
    return {name: os.path.expandvars(_interpolated(section, name)) for name in section}


def _interpolated(section: configparser.SectionProxy, name: str) -> str:
    try:
        return section.get(name, "")
    except configparser.InterpolationError:
        # Another option's, perhaps, which is Airflow's to complain about.
        return section.get(name, "", raw=True)
