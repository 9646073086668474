"""An S3 server that checks signatures (S3Proxy), as a daemon of a host, and what clients of it are given.

A proxy before it fails as a test wants; it is the test's own (`unreliable_proxy.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from stateward.platform.jars.fetch import S3_LOCK_FILE, fetch, read_lock
from stateward.project.settings import CHECKOUT, Settings
from tests.support.cluster import unreliable_proxy
from tests.support.cluster.daemons import JARS
from tests.support.cluster.hosts import OWN, PYTHON, Host
from tests.support.waiting import PATIENCE_S, wait_until

BUCKET = "stateward"

_PORT = 9000
_IDENTITY, _SECRET = "an-identity", "a-secret-of-tests"
_FOLDER = "s3"
_LOGBACK = '<configuration><root level="WARN"/></configuration>'


def start_s3(host: Host) -> str:
    """Start the server with an empty bucket, and return its address."""
    fetch(read_lock(S3_LOCK_FILE), JARS, Settings().maven_repository)
    shutil.copytree(JARS / "s3", host.folder / _FOLDER / "jars")
    # A folder of the data is a bucket.
    (host.folder / _FOLDER / "data" / BUCKET).mkdir(parents=True)
    (host.folder / _FOLDER / "logback.xml").write_text(_LOGBACK)
    address = f"http://{host.address}:{_PORT}"
    properties = {
        "s3proxy.endpoint": address,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": _IDENTITY,
        "s3proxy.credential": _SECRET,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": OWN / _FOLDER / "data",
    }
    lines = [f"{name}={value}\n" for name, value in properties.items()]
    (host.folder / _FOLDER / "s3proxy.conf").write_text("".join(lines))
    java = ["java", "-Xmx256m", f"-Dlogback.configurationFile={OWN / _FOLDER}/logback.xml"]
    main = ["-cp", f"{OWN / _FOLDER}/jars/*", "org.gaul.s3proxy.Main"]
    host.start("S3Proxy.log", {}, *java, *main, "--properties", f"{OWN / _FOLDER}/s3proxy.conf")
    wait_until(lambda: _listens(host), PATIENCE_S, lambda: f"the S3 server listens: {host.logs()}")
    return address


@dataclass(frozen=True)
class UnreliableS3:
    """The server behind a proxy that fails on demand.

    Attributes:
        address: The proxy's, for clients.
    """

    address: str

    def fail(self, *, refused: float = 0.0, late: float = 0.0, most_s: float = 0.0) -> None:
        """Fail from now on; without arguments, no more.

        Args:
            refused: The share of requests that are answered with 503 (`SlowDown`).
            late: The share of the others that are answered late.
            most_s: How late, seconds, at the most.
        """
        self._ask("PUT", json.dumps({"refused": refused, "late": late, "most_s": most_s}).encode())

    def answered(self) -> dict[str, dict[str, int]]:
        """How many requests of each client were `refused`, `late` or `passed`."""
        found: dict[str, dict[str, int]] = json.loads(self._ask("GET"))
        return found

    def _ask(self, method: str, content: bytes | None = None) -> bytes:
        asked = Request(f"{self.address}{unreliable_proxy.CONTROL}", content, method=method)
        with build_opener(ProxyHandler({})).open(asked, timeout=PATIENCE_S) as answer:
            return bytes(answer.read())


def start_unreliable_s3(host: Host, server: str) -> UnreliableS3:
    """Start the proxy on a host.

    Args:
        host: The host.
        server: The address of the S3 server.
    """
    program = Path(unreliable_proxy.__file__)
    shutil.copy(program, host.folder)
    behind = urlsplit(server)
    where = (host.address, _PORT, behind.hostname, behind.port)
    host.start("proxy.log", {}, PYTHON / "bin" / "python", OWN / program.name, *where)
    wait_until(lambda: _listens(host), PATIENCE_S, lambda: f"the proxy listens: {host.logs()}")
    return UnreliableS3(f"http://{host.address}:{_PORT}")


def _listens(host: Host) -> bool:
    assert not host.has_ended(), host.logs()
    try:
        with socket.create_connection((host.address, _PORT), timeout=5):
            return True
    except OSError:
        return False


def environment(address: str) -> dict[str, str]:
    """Return what deltalake and s3fs find in the environment of this process."""
    return {
        "AWS_ACCESS_KEY_ID": _IDENTITY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def connection(address: str) -> dict[str, str]:
    """Return a setting and the connection that it names, by which Stateward reaches the server."""
    found = {
        "conn_type": "aws",
        "login": _IDENTITY,
        "password": _SECRET,
        "extra": {"endpoint_url": address, "region_name": "us-east-1"},
    }
    return {"STATEWARD_STORAGE_CONN_ID": "storage", "AIRFLOW_CONN_STORAGE": json.dumps(found)}


def jars_with_client(folder: Path) -> Path:
    """Make a folder of JARs that has those of Hadoop's client for S3 as well."""
    shutil.copytree(CHECKOUT / "jars", folder, copy_function=os.symlink)
    for jar in (JARS / "s3a").glob("*.jar"):
        (folder / "spark" / jar.name).symlink_to(jar)
    return folder
