"""The Airflow connection of a stream, and the command that submits its driver there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stateward.contract.names import ENV_KAFKA_CLIENT, is_kubernetes, is_local
from stateward.contract.stream_control import Application
from stateward.control.launchers.driver_process import DriverCommand, LaunchError
from stateward.control.launchers.executor_dependencies import cluster_conf
from stateward.control.launchers.kubernetes_submit import api_server, in_pod, pod_conf, storage_in_pods
from stateward.control.launchers.launch import DRIVER_CONF, driver_environment, entry_point, spark_jars
from stateward.control.launchers.local_jvm import local_jvm_conf
from stateward.control.launchers.resources import Executors, executors_conf
from stateward.control.launchers.yarn_submit import cluster_mode_conf, is_yarn, yarn_conf
from stateward.control.releases.release_storage import stored_code
from stateward.project.airflow_options import SPARK_CONNECTION, create_connection
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

# The provider's own name for it, in the extra of a connection.
_MANAGER = "yarn_resourcemanager_webapp_address"


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

    master = master_of(spec)
    entry, jars = str(entry_point(spec.stream, code)), spark_jars(settings)
    conf = {**DRIVER_CONF, **_kafka_file(settings), **_executors(spec, master), **spec.spark.conf}
    conf |= local_jvm_conf(settings.jars, master, conf)
    conf |= cluster_conf(settings, master, conf, code)
    application = _application(spec, master)
    if is_yarn(master):
        conf |= yarn_conf(settings, conf)
        conf |= cluster_mode_conf(spec.stream, run_id, conf) if application else {}
    elif application:
        sent = stored_code(Layout.of(settings), code)
        # A setting of the stream wins.
        conf = storage_in_pods(os.environ) | conf
        conf |= pod_conf(spec, settings, run_id, sent, conf)
        # The image has Spark's JARs.
        entry, jars = in_pod(sent.entry), ""
    if application is None:
        _require_that_it_outlives_its_task(spec.stream)
    hook = SparkSubmitHook(
        conn_id=spec.spark.conn_id,
        conf=conf,
        jars=jars,
        driver_memory=spec.spark.driver_memory,
        name=f"stateward-{spec.stream}",
        application_args=[Layout.of(settings).config_uri(spec.stream)],
    )
    # Private, and the only way to the provider's command without its waiting and killing.
    command = hook._build_spark_submit_command(entry)
    environment = driver_environment(os.environ, settings, spec.stream, run_id, code)
    if is_local(master):
        # Spark's UI has no login of its own; Airflow's server passes it on.
        environment = {"SPARK_LOCAL_IP": "127.0.0.1"} | environment
    return DriverCommand(command, environment, application)


def _application(spec: StreamSpec, master: str) -> Application | None:
    """Return what a cluster will run if the stream's connection has the deploy mode `cluster`.

    Raises:
        LaunchError: It does not say where YARN's ResourceManager is.
    """
    from airflow.sdk import BaseHook

    extra = BaseHook.get_connection(spec.spark.conn_id).extra_dejson
    if extra.get("deploy-mode") != "cluster":
        return None
    if is_kubernetes(master):
        namespace = spec.spark.conf.get("spark.kubernetes.namespace") or extra.get("namespace") or "default"
        return Application("kubernetes", api_server(master), namespace=str(namespace))
    return _yarn_application(spec, extra) if is_yarn(master) else None


def _yarn_application(spec: StreamSpec, extra: Mapping[str, Any]) -> Application:
    address = str(extra.get(_MANAGER) or "").rstrip("/")
    if not address:
        raise LaunchError(
            f"stream {spec.stream}: expected the address of YARN's ResourceManager as {_MANAGER} in the extra"
            f" of the Airflow connection {spec.spark.conn_id!r}, such as http://rm.example.org:8088, found"
            " none. A driver in cluster mode is looked for and ended there (docs/spark-and-storage.md)."
        )
    return Application("yarn", address if "://" in address else f"http://{address}")


def _require_that_it_outlives_its_task(stream: str) -> None:
    # What the Kubernetes executor sets in the pod of a task.
    if os.environ.get("AIRFLOW_IS_K8S_EXECUTOR_POD"):
        raise LaunchError(
            f"stream {stream}: expected a task whose host outlives it, found a pod of the Kubernetes"
            " executor, with which the driver would end. Give the stream's DAG the Celery or the local"
            " executor (docs/install-into-airflow.md#which-executor)."
        )


def _executors(spec: StreamSpec, master: str) -> dict[str, str]:
    spark = spec.spark
    wanted = Executors(spark.executors, spark.executor_cores, spark.executor_memory)
    found = executors_conf(master, wanted, spark.conf)
    # The cluster's own defaults may have it, as some distributions do.
    return {**found, "spark.dynamicAllocation.enabled": "false"} if found else {}


def _kafka_file(settings: Settings) -> dict[str, str]:
    """What executors on other hosts do not inherit: where the file with the settings of Kafka clients is."""
    if settings.kafka_client is None:
        return {}
    return {f"spark.executorEnv.{ENV_KAFKA_CLIENT}": str(settings.kafka_client)}


def master_of(spec: StreamSpec) -> str:
    """Return the master that the stream's connection names; see `master_at`."""
    return master_at(spec.spark.conn_id, f"stream {spec.stream}")


def master_at(conn_id: str, asker: str) -> str:
    """Return the master that a connection names, as `spark-submit` takes it.

    Args:
        conn_id: The connection.
        asker: What needs it, for the error.

    Raises:
        LaunchError: The connection does not exist, or what it takes is not installed.
    """
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    _require_connection(conn_id, asker)
    try:
        # Private, as its command: the provider has no public way to read a connection.
        return str(SparkSubmitHook(conn_id=conn_id)._connection["master"])
    except (NameError, RuntimeError) as error:
        # The name is what the provider leaves undefined without the other one.
        raise LaunchError(
            f"{asker}: expected the Airflow provider of Kubernetes, as {conn_id!r} names its master,"
            " found none. Install it: pip install 'stateward[kubernetes]'."
        ) from error


def _require_connection(name: str, asker: str) -> None:
    from airflow.sdk import BaseHook

    from stateward.airflow.compat import AirflowNotFoundException

    try:
        BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        # The provider would fall back to YARN, and fail because of HADOOP_CONF_DIR.
        raise LaunchError(
            f"{asker}: expected the Airflow connection {name!r} (spark.conn_id in its YAML),"
            f" found none. {create_connection(name, SPARK_CONNECTION)}"
        ) from error
