"""Reverse proxies that end TLS before a server: one of a few lines, which every machine has, and nginx."""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stateward.platform.parts.ports import free_ports
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))

# A proxy says these itself, on each of its two connections.
_OF_ONE_CONNECTION = {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"content-length"}
_CONFIGURATION = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {certificate}; ssl_certificate_key {key};
    location {prefix}/ {{
      proxy_pass {target};
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate for `localhost` that is its own CA, and of its key."""

    file: Path
    key: Path


def make_certificate(folder: Path) -> Certificate:
    """Make a certificate that is valid for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signs = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    public = key.public_key()
    made = (
        x509.CertificateBuilder(name, name, public, x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / "certificate.pem", folder / "key.pem")
    files.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files


@contextmanager
def serving(app: ASGIApp, port: int | None = None, certificate: Certificate | None = None) -> Iterator[str]:
    """Serve an application of this process, on a free port by default, and give its address."""
    import uvicorn

    listens = free_ports(1)[0] if port is None else port
    tls: dict[str, Any] = {}
    if certificate is not None:
        tls = {"ssl_certfile": str(certificate.file), "ssl_keyfile": str(certificate.key)}
    config = uvicorn.Config(app, host="127.0.0.1", port=listens, log_level="warning", **tls)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, PATIENCE_S, "the server has started")
        yield f"http{'s' if certificate else ''}://127.0.0.1:{listens}"
    finally:
        server.should_exit = True
        thread.join()


def small_proxy(prefix: str, target: str) -> ASGIApp:
    """Return a proxy that passes on what is below a prefix, with its whole path."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    async def pass_on(request: Request) -> Response:
        asked = request.scope["raw_path"] + (b"?" + request.scope["query_string"]).rstrip(b"?")
        sent = [(name, value) for name, value in request.headers.raw if name not in _OF_ONE_CONNECTION]
        sent += [(b"x-forwarded-proto", request.url.scheme.encode()), (b"x-forwarded-for", b"192.0.2.1")]
        async with httpx.AsyncClient(timeout=60, trust_env=False, verify=False) as client:
            url = httpx.URL(target).copy_with(raw_path=asked)
            request_to = client.build_request(request.method, url, headers=sent, content=await request.body())
            answer = await client.send(request_to, stream=True)
            # As it came: `content` would be decoded.
            body = b"".join([part async for part in answer.aiter_raw()])
            await answer.aclose()
        passed = Response(body, answer.status_code)
        passed.raw_headers += [
            (name.lower(), value)
            for name, value in answer.headers.raw
            if name.lower() not in _OF_ONE_CONNECTION
        ]
        return passed

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    return Starlette(routes=[Route(f"{prefix}/{{path:path}}", pass_on, methods=methods)])


@contextmanager
def nginx(folder: Path, port: int, prefix: str, target: str, certificate: Certificate) -> Iterator[None]:
    """Run nginx before a server."""
    assert NGINX is not None
    file = folder / "nginx.conf"
    file.write_text(
        _CONFIGURATION.format(
            folder=folder,
            port=port,
            prefix=prefix,
            target=target,
            certificate=certificate.file,
            key=certificate.key,
        )
    )
    process = subprocess.Popen([NGINX, "-p", folder, "-c", file, "-e", folder / "error.log"])
    try:
        log = folder / "error.log"
        wait_until(
            lambda: process.poll() is None and _listens(port),
            PATIENCE_S,
            lambda: f"nginx listens: {log.read_text()[-2000:] if log.exists() else 'no log'}",
        )
        yield
    finally:
        process.terminate()
        process.wait(30)


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
