"""What a driver in cluster mode on Kubernetes is submitted with, beside what every cluster is sent.

Its pod takes the code of its release from the storage, where it is stored for all hosts, so nothing has to be
uploaded. Spark's JARs and the Python packages are those of the image.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stateward.contract.clients import s3
from stateward.contract.names import ENV_DRIVER_RUN_ID, ENV_DRIVER_STREAM, ENV_KAFKA_CLIENT
from stateward.contract.storage import replace_file
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.launchers.kubernetes_driver import RUN_LABEL, STREAM_LABEL
from stateward.control.releases.release_storage import StoredCode
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec

_K8S = "spark.kubernetes."
_IMAGE = f"{_K8S}container.image"
_DRIVER_TEMPLATE = f"{_K8S}driver.podTemplateFile"
_PYTHON = "python3"
_SERVICE_ACCOUNT = "stateward-driver"
# After the deadline at which a driver that does not drain ends itself.
_GRACE_S = 10


def api_server(master: str) -> str:
    """Return the address of the API server that a master names."""
    address = master.removeprefix("k8s://")
    return (address if "://" in address else f"https://{address}").rstrip("/")


def pod_name(stream: str, run_id: str) -> str:
    """Return the name of a driver's pod: a second one for the same launch would be refused."""
    return f"stateward-{stream}-{run_id}".lower().replace("_", "-")


def pod_conf(
    spec: StreamSpec, settings: Settings, run_id: str, sent: StoredCode, conf: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of a driver that runs in a pod.

    Args:
        spec: The stream.
        settings: The project's template of pods, and the file with settings of Kafka clients.
        run_id: The launch.
        sent: The code of its release.
        conf: What is set otherwise, that of `executor_dependencies.cluster_conf` included.

    Raises:
        LaunchError: No image is named, or the project's template of pods cannot be read.
    """
    stream = spec.stream
    if _IMAGE not in conf:
        raise LaunchError(
            f"stream {stream}: expected the image of its pods, found none. Set executor_python to image:NAME"
            " (docs/kubernetes.md)."
        )
    environment = {ENV_DRIVER_STREAM: stream, ENV_DRIVER_RUN_ID: run_id, "PYTHONUNBUFFERED": "1"}
    if settings.kafka_client is not None:
        environment[ENV_KAFKA_CLIENT] = str(settings.kafka_client)
    template = _write_template(spec, settings)
    found = {
        f"{_K8S}submission.waitAppCompletion": "false",
        f"{_K8S}driver.pod.name": pod_name(stream, run_id),
        f"{_K8S}authenticate.driver.serviceAccountName": _SERVICE_ACCOUNT,
        _DRIVER_TEMPLATE: str(template),
        # The image knows where they are.
        "spark.pyspark.python": _PYTHON,
        "spark.pyspark.driver.python": _PYTHON,
        "spark.submit.pyFiles": in_pod(sent.zip),
        "spark.executorEnv.PYTHONPATH": Path(sent.zip).name,
        **{f"{_K8S}driverEnv.{name}": value for name, value in environment.items()},
    }
    for role in ("driver", "executor"):
        found[f"{_K8S}{role}.label.{STREAM_LABEL}"] = stream
        found[f"{_K8S}{role}.label.{RUN_LABEL}"] = run_id
    # Those of the stream's YAML win where they do not decide what is found again, and how.
    theirs = {name: value for name, value in spec.spark.conf.items() if name not in _OURS}
    return {**found, **theirs}


_OURS = frozenset(
    {
        f"{_K8S}submission.waitAppCompletion",
        f"{_K8S}driver.pod.name",
        "spark.submit.pyFiles",
        "spark.executorEnv.PYTHONPATH",
    }
)


def in_pod(uri: str) -> str:
    """Return a file of the storage as `spark-submit` takes it for a pod."""
    # A path of this host would be uploaded; a folder that the pods have mounted, too, is there already.
    return uri.replace("file://", "local://", 1)


def storage_in_pods(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by which a driver's pod finds S3; it has the keys from a Secret.

    Args:
        environment: That of the launch.
    """
    place = {name: environment[name] for name in s3.PLACE if name in environment}
    return {
        **s3.hadoop_conf(environment),
        **{f"{_K8S}driverEnv.{name}": value for name, value in place.items()},
    }


def _write_template(spec: StreamSpec, settings: Settings) -> Path:
    """Write the template of the driver's pod: that of the project, with the time that a drain may take."""
    document = _project_template(spec.stream, settings)
    pod = document.setdefault("spec", {})
    health = spec.health
    drain_s = int((health.stop_deadline + 2 * health.kill_grace).total_seconds()) + _GRACE_S
    pod["terminationGracePeriodSeconds"] = max(drain_s, int(pod.get("terminationGracePeriodSeconds") or 0))
    target = Layout.of(settings).driver_log_dir(spec.stream) / "driver-pod.yaml"
    try:
        replace_file(target, yaml.safe_dump(document, sort_keys=False).encode())
    except OSError as error:
        raise LaunchError(
            f"stream {spec.stream}: expected to write the template of its pod to {target}, found {error}"
        ) from error
    return target


def _project_template(stream: str, settings: Settings) -> dict[str, Any]:
    empty = {"apiVersion": "v1", "kind": "Pod"}
    if settings.pod_template is None:
        return empty
    try:
        found = yaml.safe_load(settings.pod_template.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LaunchError(
            f"stream {stream}: expected a template of pods at {settings.pod_template} (pod_template), found"
            f" {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("spec", {}), dict):
        raise LaunchError(
            f"stream {stream}: expected one pod, as YAML with its `spec`, in {settings.pod_template}"
            " (pod_template), found something else"
        )
    return {**empty, **found}
