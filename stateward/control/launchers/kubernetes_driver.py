"""A driver in cluster mode on Kubernetes, in a pod of its own.

What Kubernetes knows of it comes from the API server, by the client of the extra `kubernetes`. The Spark
provider's hook asks there as well, but for a pod that it has submitted itself, and neither by a label nor for
the end of the container.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stateward.contract.stream_control import Application, FailureKind
from stateward.control.launchers.driver_exit import PLACED, Ending, Exit, Placement, Presence
from stateward.control.launchers.local_driver import SubmittedDriver

STREAM_LABEL = "stateward.stream"
RUN_LABEL = "stateward.run-id"
KEPT_PODS = 5
"""Pods of earlier drivers that are kept for each stream: their logs can be read until then."""

_LOG = logging.getLogger(__name__)
_CONTAINER = "spark-kubernetes-driver"
_TIMEOUT_S = 5.0
_KILL_TIMEOUT_S = 10.0
_KILL_GRACE_S = 1
_LOG_LINES = 500
_ENDED = frozenset({"Succeeded", "Failed"})
_SIGNALLED = 128
# A host that does not answer keeps its pod in the API beyond its time, and may still run it.
_OVERDUE = timedelta(seconds=60)


class ApiAwayError(OSError):
    """The API server does not answer, or refuses the question."""


@dataclass(frozen=True)
class KubernetesDriver(SubmittedDriver):
    """See `drivers.ClusterDriver`."""

    def look(self) -> Presence:
        """Tell where it is, as the API server has it."""
        # First, so that a pod of a `spark-submit` that ends meanwhile is not missed.
        submitting = self._submit.look()
        try:
            pod = self._find()
        except ApiAwayError as error:
            _LOG.warning("stream %s: its driver is looked for in vain: %s", self.stream, error)
            return Presence.ELSEWHERE
        if pod is None:
            # A pod that was there has been deleted, and Kubernetes has made sure that it has ended.
            return Presence.GONE if self.of.id else submitting
        return presence_of(pod, datetime.now(UTC))

    def application(self) -> Application:
        """Return the application with its pod; without one if there is none, or the API does not answer."""
        found = self.of
        with contextlib.suppress(ApiAwayError):
            pod = self._find()
            # A `spark-submit` that fails half-way deletes the pod that it has created.
            if pod is not None and "deletionTimestamp" not in pod["metadata"]:
                found = replace(self.of, id=_name(pod))
            self._sweep()
        return found

    def placement(self) -> Placement:
        """Return none: a pod that no node has room for counts as a start that does not get on."""
        return PLACED

    def ending(self) -> Ending:
        """Tell how it has ended: in the words of Kubernetes, and by the log of its container."""
        try:
            pod = self._find()
            if pod is None:
                return Ending(_DELETED, "") if self.of.id else self._submit.ending()
            return Ending(exit_of(pod), self._log(pod))
        except ApiAwayError:
            return Ending(None, "")

    def terminate(self) -> None:
        """Delete its pod: the container is sent SIGTERM, and has the pod's grace period to drain."""
        with contextlib.suppress(ApiAwayError):
            # Otherwise it reads itself that it has to leave.
            self._delete(None)

    def kill(self) -> list[str]:
        """Kill its pod, and name it if it is not gone soon."""
        left, deadline = self._submit.kill(), time.monotonic() + _KILL_TIMEOUT_S
        try:
            # Zero would remove it from the API alone, wherever its processes are.
            self._delete(_KILL_GRACE_S)
            while (pod := self._find()) is not None:
                if time.monotonic() >= deadline:
                    return [*left, f"pod {_name(pod)}"]
                time.sleep(0.2)
        except ApiAwayError as error:
            return [*left, f"pod {self.of.id or 'of launch ' + self.launch.run_id} ({error})"]
        return left

    def _find(self) -> dict[str, Any] | None:
        """Return the pod as the API has it; None if there is none.

        Raises:
            ApiAwayError: The API does not answer.
        """
        pods = self._pods(f"{RUN_LABEL}={self.launch.run_id},spark-role=driver")
        return pods[0] if pods else None

    def _pods(self, labels: str) -> list[dict[str, Any]]:
        with _api(self.of.cluster) as api:
            answer = api.list_namespaced_pod(
                self.of.namespace, label_selector=labels, _preload_content=False, _request_timeout=_TIMEOUT_S
            )
            found: list[dict[str, Any]] = json.loads(answer.data)["items"]
        return found

    def _delete(self, grace_s: int | None) -> None:
        pod = self._find()
        if pod is None:
            return
        # With the pod goes its log.
        with contextlib.suppress(OSError), Path(self.launch.log).open("a", encoding="utf-8") as file:
            file.write(f"\n{self._log(pod)}\n")
        self._delete_pod(_name(pod), grace_s)

    def _delete_pod(self, name: str, grace_s: int | None) -> None:
        grace = {} if grace_s is None else {"grace_period_seconds": grace_s}
        with _api(self.of.cluster) as api:
            api.delete_namespaced_pod(
                name, self.of.namespace, _request_timeout=_TIMEOUT_S, _preload_content=False, **grace
            )

    def _sweep(self) -> None:
        """Delete the oldest pods of the stream's drivers that have ended."""
        pods = self._pods(f"{STREAM_LABEL}={self.stream},spark-role=driver")
        ended = [pod for pod in pods if pod["status"].get("phase") in _ENDED]
        for pod in sorted(ended, key=lambda one: str(one["metadata"]["creationTimestamp"]))[:-KEPT_PODS]:
            self._delete_pod(_name(pod), None)

    def _log(self, found: Mapping[str, Any]) -> str:
        """Return what Kubernetes says of the pod, and the end of its container's log."""
        parts = [f"Kubernetes: pod {_name(found)}: {condition_of(found)}"]
        if any(status.get("state", {}).keys() & {"running", "terminated"} for status in _statuses(found)):
            with _api(self.of.cluster) as api:
                answer = api.read_namespaced_pod_log(
                    _name(found),
                    self.of.namespace,
                    container=_driver_status(found).get("name", _CONTAINER),
                    tail_lines=_LOG_LINES,
                    _preload_content=False,
                    _request_timeout=_TIMEOUT_S,
                )
                parts.append(answer.data.decode("utf-8", "replace"))
        return "\n".join(parts)


_DELETED = Exit(kind="evicted", said="its pod was deleted")


@contextlib.contextmanager
def _api(cluster: str) -> Iterator[Any]:
    """Give the client of the API server, as the kubeconfig or the service account of this pod has it.

    Raises:
        ApiAwayError: It does not answer, or refuses the question.
    """
    try:
        # Not by an import: the extra `kubernetes` has it, and takes seconds to load.
        client: Any = importlib.import_module("kubernetes.client")
        config: Any = importlib.import_module("kubernetes.config")
    except ImportError as error:
        raise ApiAwayError(
            "expected the client of Kubernetes: pip install 'stateward[kubernetes]'"
        ) from error
    errors = importlib.import_module("urllib3.exceptions")
    try:
        configuration = client.Configuration()
        config.load_config(client_configuration=configuration)
        configuration.host = cluster
        configuration.retries = False
        with client.ApiClient(configuration) as connection:
            yield client.CoreV1Api(connection)
    except client.ApiException as error:
        raise ApiAwayError(f"{cluster} answers {error.status} {error.reason}: {error.body}") from error
    except (errors.HTTPError, config.ConfigException, OSError, ValueError, KeyError) as error:
        raise ApiAwayError(f"{cluster} does not answer: {error!r}") from error


def presence_of(pod: Mapping[str, Any], now: datetime) -> Presence:
    """Tell from a pod where its driver is.

    Args:
        pod: As the API has it.
        now: The time, aware.
    """
    if pod["status"].get("phase") in _ENDED:
        return Presence.GONE
    deleted = pod["metadata"].get("deletionTimestamp")
    # It is the time at which the pod has to be gone.
    overdue = deleted is not None and now - datetime.fromisoformat(deleted) > _OVERDUE
    return Presence.ELSEWHERE if overdue or pod["status"].get("phase") == "Unknown" else Presence.ALIVE


def exit_of(pod: Mapping[str, Any]) -> Exit:
    """Tell how the driver of a pod has ended.

    Args:
        pod: As the API has it.
    """
    status = pod["status"]
    ended = _driver_status(pod).get("state", {}).get("terminated", {})
    if ended.get("reason") == "OOMKilled":
        return _by_cluster("out_of_memory", f"its container was ended as OOMKilled{_limit_of(pod)}")
    if status.get("reason"):
        # Evicted, Preempting, NodeShutdown, DeadlineExceeded, ...
        return _by_cluster("evicted", f"{status['reason']}: {status.get('message') or 'its pod was ended'}")
    for condition in status.get("conditions", ()):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return _by_cluster("evicted", f"{condition.get('reason')}: {condition.get('message')}")
    code = ended.get("exitCode")
    if code == _SIGNALLED + signal.SIGKILL:
        # A pod has one code, whether the JVM or Python was killed.
        return _by_cluster("killed", "a process of its container was killed by SIGKILL")
    return Exit(code=code)


def _by_cluster(kind: FailureKind, said: str) -> Exit:
    return Exit(kind=kind, said=f"Kubernetes: {said}")


def _limit_of(pod: Mapping[str, Any]) -> str:
    name = _driver_status(pod).get("name")
    for container in pod["spec"]["containers"]:
        limit = container.get("resources", {}).get("limits", {}).get("memory")
        if container["name"] == name and limit:
            return f", with a limit of {limit}"
    return ""


def condition_of(pod: Mapping[str, Any]) -> str:
    """Say in a line how a pod is, and what it waits for."""
    status = pod["status"]
    waits = [one["state"]["waiting"] for one in _statuses(pod) if "waiting" in one.get("state", {})]
    unmet = [one for one in status.get("conditions", ()) if one["status"] == "False" and one.get("message")]
    said = [f"{one.get('reason')}: {one['message']}" for one in (*waits, *unmet) if one.get("message")]
    said += [f"{status['reason']}: {status.get('message', '')}"] if status.get("reason") else []
    return "; ".join([str(status.get("phase")), *dict.fromkeys(said)])


def _statuses(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(pod["status"].get("containerStatuses", ()))


def _driver_status(pod: Mapping[str, Any]) -> dict[str, Any]:
    """What the API says of the container with the driver; one of a template may stand beside it."""
    found = _statuses(pod)
    return next((one for one in found if one["name"] == _CONTAINER), found[0] if found else {})


def _name(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["name"])
