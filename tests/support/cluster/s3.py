"""An S3 server that checks signatures (S3Proxy), as a daemon of a host, and what clients of it are given."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

from stateward.platform.jars.fetch import fetch, read_lock
from stateward.project.settings import CHECKOUT, Settings
from tests.support.cluster.daemons import JARS
from tests.support.cluster.hosts import OWN, Host
from tests.support.waiting import PATIENCE_S, wait_until

BUCKET = "stateward"

_LOCK = CHECKOUT / "tests" / "cluster" / "s3_jars.lock"
_PORT = 9000
_IDENTITY, _SECRET = "an-identity", "a-secret-of-tests"
_FOLDER = "s3"
_LOGBACK = '<configuration><root level="WARN"/></configuration>'


def start_s3(host: Host) -> str:
    """Start the server with an empty bucket, and return its address."""
    fetch(read_lock(_LOCK), JARS, Settings().maven_repository)
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
