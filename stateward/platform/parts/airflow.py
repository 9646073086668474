"""The embedded Airflow: its configuration, as environment variables, and its metadata database."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from stateward.contract.names import ENV_HOME, ENV_MANAGED
from stateward.platform.jars.java import find_java
from stateward.platform.secrets import ADMIN, Secrets, passwords_file
from stateward.project.airflow_options import SPARK_CONNECTION, connection_variable, sqlite_address
from stateward.project.layout import Layout
from stateward.project.settings import Settings, connect_host, library_path

# Passed to sqlite3.connect by Airflow: five processes share one file, and a locked one is waited for.
SQLITE_CONNECT_ARGS = {"timeout": 60}


class MigrationError(RuntimeError):
    """Airflow's metadata database could not be created or brought up to date."""


def with_own_address(settings: Settings) -> Settings:
    """Return the settings with the address of this Airflow: `base_url` in a shell is that of another one."""
    if "airflow_url" in settings.model_fields_set:
        return settings
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    return Settings(**given, airflow_url=f"http://localhost:{settings.airflow_port}")


def environment(settings: Settings, secrets: Secrets) -> dict[str, str]:
    """Return the whole environment of every supervised part, and so of the tasks and drivers they start."""
    local_hosts = f"localhost,127.0.0.1,{connect_host(settings.bind_host)}"
    no_proxy = os.environ.get("NO_PROXY") or os.environ.get("no_proxy")
    proxies = ",".join(filter(None, [no_proxy, local_hosts]))
    environ = {
        # A user's own connection wins: it is how another Spark master is named.
        connection_variable(settings.spark_conn_id): SPARK_CONNECTION,
        **os.environ,
        **settings.environment(),
        ENV_HOME: str(settings.home),
        ENV_MANAGED: "1",
        **_airflow_options(settings, secrets),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, [*library_path(), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        # Another interpreter in the workers fails on missing libraries.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(find_java()),
        # Tasks talk to the API server of this machine, never through a proxy.
        "NO_PROXY": proxies,
        "no_proxy": proxies,
        # Airflow renames its processes; without this the new name overwrites the environment in /proc,
        # by which `down` recognises them.
        "SPT_NOENV": "1",
    }
    environ.pop("STATEWARD_PART", None)
    return environ


def _airflow_options(settings: Settings, secrets: Secrets) -> dict[str, str]:
    named = {
        f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
        for section, values in _sections(settings, secrets).items()
        for option, value in values.items()
    }
    return {"AIRFLOW_HOME": str(Layout.of(settings).airflow_home), **named}


def _sections(settings: Settings, secrets: Secrets) -> dict[str, dict[str, object]]:
    home = Layout.of(settings).airflow_home
    return {
        "core": {
            "dags_folder": settings.project / "dags",
            # Those of the project; the library's are found by their entry points.
            "plugins_folder": settings.project / "plugins",
            "load_examples": False,
            "dags_are_paused_at_creation": False,
            "executor": "LocalExecutor",
            "parallelism": 8,
            "fernet_key": secrets.fernet_key,
            "hostname_callable": "socket.gethostname",
            "execution_api_server_url": f"{settings.airflow_internal_url}/execution/",
            "auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            "simple_auth_manager_users": f"{ADMIN}:admin",
            "simple_auth_manager_passwords_file": passwords_file(home),
        },
        "database": {
            "sql_alchemy_conn": sqlite_address(home / "airflow.db"),
            "sql_alchemy_connect_args": "stateward.platform.parts.airflow.SQLITE_CONNECT_ARGS",
            "sql_alchemy_connect_args_async": "stateward.platform.parts.airflow.SQLITE_CONNECT_ARGS",
        },
        "api": {
            "host": settings.bind_host,
            "port": settings.airflow_port,
            "base_url": settings.airflow_url,
            "workers": 1,
            "secret_key": secrets.session_key,
            # Keep-alive and graceful shutdown, seconds: an open page must not hold up `down`.
            "worker_timeout": 15,
        },
        # A request of a task to the API server, seconds. With the default of 5, streams could not be started
        # beside a load of 12 on two cores.
        "workers": {"execution_api_timeout": 60},
        "api_auth": {"jwt_secret": secrets.jwt_secret},
        "scheduler": {
            # How fast a part that was killed is missed, and its tasks are given to its successor, seconds. A
            # scheduler that a busy machine keeps from its heartbeat for so long takes itself for dead, and
            # starts its own tasks once more: with 10 it did, beside a load of 17 on two cores.
            "scheduler_health_check_threshold": 30,
            "orphaned_tasks_check_interval": 10,
            "task_instance_heartbeat_timeout": 30,
            "task_instance_heartbeat_timeout_detection_interval": 5,
            "trigger_timeout_check_interval": 5,
        },
        "triggerer": {"job_heartbeat_sec": 2, "triggerer_health_check_threshold": 15, "on_kill_timeout": 5},
        "dag_processor": {"refresh_interval": 15, "min_file_process_interval": 15, "parsing_processes": 1},
        "logging": {
            "worker_log_server_port": settings.airflow_worker_log_port,
            "trigger_log_server_port": settings.airflow_triggerer_log_port,
            "colored_console_log": False,
        },
    }


def migrate(settings: Settings, environ: dict[str, str]) -> None:
    """Create the metadata database, or bring it up to date after an upgrade. Does nothing when it is current.

    Raises:
        MigrationError: `airflow db migrate` failed; the message ends with its output.
    """
    home = Layout.of(settings).airflow_home
    stamp, wanted = home / "migrated", f"{version('apache-airflow')}\n"
    if stamp.exists() and stamp.read_text() == wanted and (home / "airflow.db").exists():
        return
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd=home)
    if run.returncode != 0:
        raise MigrationError(
            f"`airflow db migrate` on {home / 'airflow.db'} failed (exit {run.returncode}): "
            f"{(run.stdout + run.stderr).strip()[-1500:]}"
        )
    with contextlib.closing(sqlite3.connect(home / "airflow.db")) as database:
        # Kept in the file: readers and the one writer no longer wait for each other.
        database.execute("PRAGMA journal_mode=WAL")
    stamp.write_text(wanted)
