"""A driver in cluster mode on YARN, in the container of its application master.

What YARN knows of it comes from the ResourceManager's REST API. The hook of the Spark provider asks there as
well, but by private methods that releases before 6.3 do not have, and neither by a tag nor for the container.
"""

from __future__ import annotations

import functools
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stateward.contract.stream_control import Application, FailureKind
from stateward.control.launchers.driver_exit import PLACED, Ending, Exit, Placement, Presence
from stateward.control.launchers.local_driver import SubmittedDriver

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S = 5.0
_KILL_TIMEOUT_S = 10.0
_FINAL = frozenset({"FINISHED", "FAILED", "KILLED"})
# The JVM's, and that of Python and its errors.
_LOGS = ("stderr", "stdout")
_LOG_BYTES = 32 * 1024
_SIGNALLED = 128
_CONTAINER = re.compile(r"container_\w+")
# That of the JVM, if it ended without a word to YARN; that of Python, which the JVM reports.
_EXIT_CODE = re.compile(r"exitCode: (-?\d+)")
_EXIT_CODE_OF_PYTHON = re.compile(r"User application exited with(?: status)? (\d+)")
# Hadoop's `ContainerExitStatus`: what YARN itself has ended, or could not start.
_ENDED_BY_YARN: Mapping[int, FailureKind] = {
    -100: "evicted",
    -101: "evicted",
    -102: "evicted",
    -103: "out_of_memory",
    -104: "out_of_memory",
    -105: "evicted",
    -106: "evicted",
    -108: "evicted",
    # A file could not be copied to the node, or the node has no disk for it.
    -1000: "not_started",
}
_ACCEPTED = {"Accept": "application/json, text/plain"}
_OWN_KILL = "Application killed by Stateward."


class ManagerAwayError(OSError):
    """The ResourceManager does not answer, or not as it should."""


def tag_of(run_id: str) -> str:
    """Return the tag by which an application is found; YARN keeps tags in lower case."""
    return f"stateward-{run_id}".lower()


@dataclass(frozen=True)
class YarnDriver(SubmittedDriver):
    """See `drivers.ClusterDriver`."""

    def look(self) -> Presence:
        """Tell where it is, as the ResourceManager has it."""
        # First, so that an application of a `spark-submit` that ends meanwhile is not missed.
        submitting = self._submit.look()
        try:
            found = self._find()
        except ManagerAwayError:
            return Presence.ELSEWHERE
        if found is None:
            return Presence.ELSEWHERE if self.of.id else submitting
        return Presence.GONE if found["state"] in _FINAL else Presence.ALIVE

    def application(self) -> Application:
        """Return the application with its id; without one if YARN has not accepted it, or does not answer."""
        try:
            found = self._find()
        except ManagerAwayError:
            return self.of
        return self.of if found is None else replace(self.of, id=found["id"])

    def placement(self) -> Placement:
        """Tell how it gets its container."""
        try:
            found = self._find()
            if found is None or found["state"] in _FINAL:
                return PLACED
            nodes = (self._ask("GET", "nodes", params={"states": "RUNNING"}) or {}).get("nodes") or {}
        except ManagerAwayError:
            return PLACED
        return placement_of(found, nodes.get("node") or [])

    def ending(self) -> Ending:
        """Tell how it has ended: in the words of YARN, and by the logs of its container."""
        try:
            found = self._find()
        except ManagerAwayError:
            return Ending(None, "")
        if found is None:
            return self._submit.ending()
        return Ending(exit_of(found), self._log(found))

    def terminate(self) -> None:
        """Do nothing: the driver reads itself that it has to leave.

        SIGTERM from YARN ends the shell whose child the driver is, and YARN kills what is left of the
        container before anything could drain.
        """

    def kill(self) -> list[str]:
        """Kill the application, and name it if it is not over soon."""
        left, deadline = self._submit.kill(), time.monotonic() + _KILL_TIMEOUT_S
        try:
            found = self._find()
            if found is None:
                return left
            if found["state"] not in _FINAL:
                state = {"state": "KILLED", "diagnostics": _OWN_KILL}
                self._ask("PUT", f"apps/{found['id']}/state", json=state)
            while found is not None and found["state"] not in _FINAL:
                if time.monotonic() >= deadline:
                    return [*left, f"application {found['id']}"]
                time.sleep(0.2)
                found = self._find()
        except ManagerAwayError as error:
            return [*left, f"application {self.of.id or 'of launch ' + self.launch.run_id} ({error})"]
        return left

    def _find(self) -> dict[str, Any] | None:
        """Return what the ResourceManager says of the application; None if it knows none.

        Raises:
            ManagerAwayError: It does not answer.
        """
        if self.of.id:
            app: dict[str, Any] | None = (self._ask("GET", f"apps/{self.of.id}") or {}).get("app")
            return app
        tags = {"applicationTags": tag_of(self.launch.run_id)}
        apps = ((self._ask("GET", "apps", params=tags) or {}).get("apps") or {}).get("app") or []
        return max(apps, key=lambda one: one["startedTime"]) if apps else None

    def _log(self, found: Mapping[str, Any]) -> str:
        """Return the end of each log of its container, after what YARN says of its end."""
        said = str(found.get("diagnostics") or "").strip()
        node, container = found.get("amHostHttpAddress"), _container_of(found)
        parts = [f"YARN: {said}"] if said else []
        for name in _LOGS if node and container else ():
            address = f"http://{node}/ws/v1/node/containers/{container}/logs/{name}"
            try:
                text = _text_of(_send("GET", address, params={"size": f"-{_LOG_BYTES}"}).text)
            except ManagerAwayError as error:
                text = str(error)
            parts.append(f"{name} of {container}:\n{text}")
        return "\n".join(parts)

    def _ask(self, method: str, path: str, **sent: Any) -> dict[str, Any] | None:
        answer = _send(method, f"{self.of.cluster}/ws/v1/cluster/{path}", **sent)
        if answer.status_code == 404:
            return None
        try:
            document: dict[str, Any] = answer.json()
        except ValueError as error:
            raise ManagerAwayError(f"{self.of.cluster} answers no JSON ({answer.status_code})") from error
        return document


def _send(method: str, address: str, **sent: Any) -> httpx.Response:
    import httpx

    try:
        answer = _client().request(method, address, headers=_ACCEPTED, **sent)
    except httpx.HTTPError as error:
        raise ManagerAwayError(f"{address} does not answer: {error!r}") from error
    if answer.status_code >= 400 and answer.status_code != 404:
        raise ManagerAwayError(f"{address} answers {answer.status_code}: {answer.text[:200]}")
    return answer


@functools.cache
def _client() -> httpx.Client:
    """One for all looks: to read the certificates takes longer than a look."""
    import httpx

    return httpx.Client(
        timeout=_TIMEOUT_S,
        # A proxy of the environment does not lead to the cluster; certificates of one's own count.
        trust_env=False,
        verify=httpx.create_ssl_context(trust_env=True),
        # A standby ResourceManager leads to the active one.
        follow_redirects=True,
        limits=httpx.Limits(max_keepalive_connections=0),
    )


def exit_of(found: Mapping[str, Any]) -> Exit:
    """Tell how an application has ended.

    Args:
        found: What the ResourceManager says of it, `app` of its REST API.
    """
    said = " ".join(str(found.get("diagnostics") or "").split())
    if found["state"] == "KILLED":
        return Exit(kind="evicted", said=f"YARN: {said or 'the application was killed'}")
    if noted := _EXIT_CODE_OF_PYTHON.search(said):
        return Exit(code=int(noted[1]))
    if not (noted := _EXIT_CODE.search(said)):
        return Exit()
    code = int(noted[1])
    if kind := _ENDED_BY_YARN.get(code):
        did = "could not start" if kind == "not_started" else "ended"
        return Exit(kind=kind, said=f"YARN {did} its container: {_after_diagnostics(said)}")
    try:
        return Exit(signal=signal.Signals(code - _SIGNALLED).name)
    except ValueError:
        return Exit(code=code)


def placement_of(found: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Placement:
    """Tell how an application gets the container of its driver.

    Args:
        found: What the ResourceManager says of it, `app` of its REST API.
        nodes: What it says of the nodes that run. Its metrics count no core as free where no memory is.
    """
    if _container_of(found):
        # Zero where a release of Hadoop does not have it.
        launched = int(found.get("launchTime") or 0)
        return Placement(timedelta(milliseconds=max(0, launched - int(found["startedTime"]))))
    said = " ".join(str(found.get("diagnostics") or "").partition("Details :")[0].split())
    free, used = _sum(nodes, "availMemoryMB"), _sum(nodes, "usedMemoryMB")
    free_cores, used_cores = _sum(nodes, "availableVirtualCores"), _sum(nodes, "usedVirtualCores")
    room = (
        f"the cluster has {free} of {free + used} MiB and {free_cores} of {free_cores + used_cores} cores"
        f" free on {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"
    )
    waits_for = f"a container of {_size_of(found)} in the queue {found.get('queue')}: {room}"
    return Placement(timedelta(milliseconds=int(found["elapsedTime"])), f"{waits_for}. YARN: {said}")


def _sum(nodes: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(int(node.get(name) or 0) for node in nodes)


def _size_of(found: Mapping[str, Any]) -> str:
    """Say what the container of an application master takes that has been requested."""
    requests = found.get("resourceRequests") or [{}]
    size = requests[0].get("capability")
    if not size:
        return "the driver's size"
    cores = size["vCores"]
    return f"{size['memory']} MiB and {cores} {'core' if cores == 1 else 'cores'}"


def _after_diagnostics(said: str) -> str:
    """Return what follows YARN's own preamble, without the dump of the process tree."""
    return said.partition("Diagnostics: ")[2].partition("Dump of the process-tree")[0].strip() or said


def _text_of(answer: str) -> str:
    """Return a log without what the NodeManager writes around it."""
    return answer.partition("LogContents:\n")[2].rpartition("\nEnd of LogType:")[0] or answer


def _container_of(found: Mapping[str, Any]) -> str | None:
    name = _CONTAINER.search(str(found.get("amContainerLogs") or ""))
    return name[0] if name else None
