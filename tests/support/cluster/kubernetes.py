"""The Kubernetes cluster that `KUBECONFIG` names, by its own command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateward.project.settings import CHECKOUT

IMAGE = "KUBERNETES_IMAGE"
"""Variable with the image of Spark's pods, which the cluster's nodes have or can pull."""

RIGHTS = CHECKOUT / "docs" / "kubernetes" / "rights.yaml"
TEMPLATE = RIGHTS.with_name("pod-template.yaml")
NAMESPACE = "stateward"

_EATS_MEMORY = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if "java" in os.readlink(f"/proc/{pid}/exe"):
            open(f"/proc/{pid}/oom_score_adj", "w").write("1000")
    except OSError:
        pass
kept = []
while True:
    kept.append(bytearray(os.urandom(1 << 20) * 8))
"""


def why_not_here() -> str | None:
    """Say what is missing for these tests; None if everything is there."""
    if "KUBECONFIG" not in os.environ or IMAGE not in os.environ:
        return f"these need a cluster, named by KUBECONFIG, and its image of Spark's pods, by {IMAGE}"
    return None if shutil.which("kubectl") else "these need kubectl"


@dataclass(frozen=True)
class Kubernetes:
    """A namespace of a cluster.

    Attributes:
        folder: Takes the kubeconfig of Airflow's service account.
        namespace: Where the pods are.
    """

    folder: Path
    namespace: str = NAMESPACE

    def install(self) -> None:
        """Apply the rights that the documentation gives, and log in with those of Airflow alone."""
        self("apply", "-f", RIGHTS)
        config = json.loads(self("config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
        token = self("create", "token", "stateward-airflow", "--duration", "4h").strip()
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        self.kubeconfig.write_text(json.dumps(config))
        self.kubeconfig.chmod(0o600)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of Airflow's service account."""
        return self.folder / "kubeconfig"

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}").strip()

    def __call__(self, *arguments: object, must: bool = True) -> str:
        """Run `kubectl` in the namespace with the rights of `KUBECONFIG`, and return what it says."""
        done = subprocess.run(
            ["kubectl", "--namespace", self.namespace, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0 or not must, f"kubectl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def pods(self, stream: str, role: str) -> list[dict[str, Any]]:
        """Return the pods of a stream that have not ended, `role` being `driver` or `executor`."""
        labels = f"stateward.stream={stream},spark-role={role}"
        found: list[dict[str, Any]] = json.loads(self("get", "pods", "-l", labels, "-o", "json"))["items"]
        return [pod for pod in found if pod["status"].get("phase") not in ("Succeeded", "Failed")]

    def names(self, stream: str, role: str) -> list[str]:
        """Return the names of those pods."""
        return [pod["metadata"]["name"] for pod in self.pods(stream, role)]

    def fill_memory(self, pod: str) -> None:
        """Take memory in a container until the kernel ends its JVM for that."""
        self("exec", pod, "-c", "spark-kubernetes-driver", "--", "python", "-c", _EATS_MEMORY, must=False)

    def said(self, stream: str) -> str:
        """Return how the pods of a stream are, and the ends of their logs, for a message."""
        labels = f"stateward.stream={stream}"
        parts = [self("get", "pods", "-l", labels, "-o", "wide", must=False)]
        parts += [self("describe", "pods", "-l", labels, must=False)[-3000:]]
        parts += [self("logs", "-l", labels, "--tail", 60, must=False)[-6000:]]
        return "\n".join(parts)

    def secret(self, name: str, *content: str) -> None:
        """Make a Secret, which `clear` deletes."""
        self("create", "secret", "generic", name, *content)
        self("label", "secret", name, "stateward.test=")

    def clear(self) -> None:
        """Delete the pods and the Secrets that are left."""
        self("delete", "secrets", "-l", "stateward.test", must=False)
        self("delete", "pods", "-l", "stateward.stream", "--grace-period", 1, must=False)
