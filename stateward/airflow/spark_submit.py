"""The Airflow connection of a stream, and the command that submits its driver there."""

from __future__ import annotations

import os
from pathlib import Path

from stateward.contract.names import ENV_KAFKA_CLIENT
from stateward.control.launchers.driver_process import DriverCommand, LaunchError
from stateward.control.launchers.executor_dependencies import cluster_conf
from stateward.control.launchers.launch import DRIVER_CONF, driver_environment, entry_point, spark_jars
from stateward.control.launchers.local_files import is_local, local_files_conf
from stateward.project.airflow_options import SPARK_CONNECTION, create_connection
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec


def build_command(spec: StreamSpec, settings: Settings, run_id: str, code: Path) -> DriverCommand:
    """Build the command that submits a stream's driver.

    Args:
        spec: The stream.
        settings: Where everything is.
        run_id: This launch.
        code: The folder of the packages `spark_jobs` and `stateward`.

    Raises:
        LaunchError: The connection does not exist, or there are no JARs or no job.
    """
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    _require_connection(spec)
    entry = entry_point(spec.stream, code)
    conf = {**DRIVER_CONF, **_executors(settings), **spec.spark.conf}
    master = master_of(spec)
    hook = SparkSubmitHook(
        conn_id=spec.spark.conn_id,
        conf={
            **conf,
            **local_files_conf(settings.jars, master, conf),
            **cluster_conf(settings, master, conf, code),
        },
        jars=spark_jars(settings),
        driver_memory=spec.spark.driver_memory,
        name=f"stateward-{spec.stream}",
        application_args=[Layout.of(settings).config_uri(spec.stream)],
    )
    # Private, and the only way to the provider's command without its waiting and killing.
    command = hook._build_spark_submit_command(str(entry))
    environment = driver_environment(os.environ, settings, spec.stream, run_id, code)
    if is_local(master):
        # Spark's UI has no login of its own; Airflow's server passes it on.
        environment = {"SPARK_LOCAL_IP": "127.0.0.1"} | environment
    return DriverCommand(command, environment)


def _executors(settings: Settings) -> dict[str, str]:
    """What executors on other hosts do not inherit: where the file with the settings of Kafka clients is."""
    if settings.kafka_client is None:
        return {}
    return {f"spark.executorEnv.{ENV_KAFKA_CLIENT}": str(settings.kafka_client)}


def master_of(spec: StreamSpec) -> str:
    """Return the master that the stream's connection names, as `spark-submit` takes it.

    Raises:
        LaunchError: The connection does not exist.
    """
    _require_connection(spec)
    return master_of_connection(spec.spark.conn_id)


def master_of_connection(conn_id: str) -> str:
    """Return the master that a connection names; that of the provider, YARN, if it does not exist."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    # Private, as its command: the provider has no public way to read a connection.
    return str(SparkSubmitHook(conn_id=conn_id)._connection["master"])


def _require_connection(spec: StreamSpec) -> None:
    from airflow.sdk import BaseHook

    from stateward.airflow.compat import AirflowNotFoundException

    name = spec.spark.conn_id
    try:
        BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        # The provider would fall back to YARN, and fail because of HADOOP_CONF_DIR.
        raise LaunchError(
            f"stream {spec.stream}: expected the Airflow connection {name!r} (spark.conn_id in its YAML),"
            f" found none. {create_connection(name, SPARK_CONNECTION)}"
        ) from error
