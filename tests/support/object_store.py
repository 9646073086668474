"""A small S3 server in a process of its own, with or without conditional writes; objects are in memory.

Not in this process: deltalake holds Python's lock while it waits for an answer.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener
from xml.sax.saxutils import escape, unescape

KEY, SECRET, BUCKET = "AKIDOFATEST", "the secret of a test", "bucket"
_OF_THE_TEST = "X-Of-The-Test"
_NO_HEADERS: Mapping[str, str] = {}
_LATER = 503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@dataclass(frozen=True)
class ObjectStore:
    """A server, and what a test does there past the libraries.

    Attributes:
        address: Its URL.
    """

    address: str

    @property
    def environment(self) -> dict[str, str]:
        """What leads the clients of S3 there."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "NO_PROXY": "127.0.0.1",
        }

    def listed(self) -> list[str]:
        """All keys, sorted."""
        listed = self._ask("GET", "?list-type=2").decode()
        return [unescape(key) for key in re.findall("<Key>(.*?)</Key>", listed)]

    def read(self, key: str) -> bytes:
        """Read an object."""
        return self._ask("GET", f"/{quote(key)}")

    def write(self, key: str, content: bytes, *, only_if_absent: bool = False) -> None:
        """Write an object; an existing one is replaced, or refused with an `HTTPError`."""
        self._ask("PUT", f"/{quote(key)}", content, {"If-None-Match": "*"} if only_if_absent else {})

    def remove(self, key: str) -> None:
        """Remove an object."""
        self._ask("DELETE", f"/{quote(key)}")

    def refuse(self, requests: int) -> None:
        """Answer the next requests of the libraries with 503, and do nothing of what they ask for."""
        self._ask("PUT", "/-/refuse", str(requests).encode())

    def lose(self, name: str) -> None:
        """Answer the next write of an object whose key contains a name with 503, but after it is done."""
        self._ask("PUT", "/-/lose", name.encode())

    def _ask(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] = _NO_HEADERS
    ) -> bytes:
        url = f"{self.address}/{BUCKET}{path}"
        asked = Request(url, content, {**headers, _OF_THE_TEST: "1"}, method=method)
        with build_opener(ProxyHandler({})).open(asked, timeout=60) as answer:
            return bytes(answer.read())


@contextmanager
def object_store(*, has_conditions: bool = True) -> Iterator[ObjectStore]:
    """Serve a bucket.

    Args:
        has_conditions: Whether `If-None-Match` is honoured.
    """
    command = [sys.executable, "-m", "tests.support.object_store", str(int(has_conditions))]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        try:
            assert server.stdout is not None
            yield ObjectStore(server.stdout.readline().strip())
        finally:
            server.kill()


class _Handler(BaseHTTPRequestHandler):
    has_conditions = True
    objects: ClassVar[dict[str, bytes]] = {}
    lock = threading.Lock()
    faults: ClassVar[dict[str, str]] = {}
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._is_allowed():
            return
        with self.lock:
            is_taken = self._key in self.objects
            if is_taken and self.has_conditions and self.headers.get("If-None-Match") == "*":
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            if self._key.startswith("-/"):
                self.faults[self._key] = content.decode()
            else:
                self.objects[self._key] = content
            is_lost = self.faults.get("-/lose") and self.faults["-/lose"] in self._key
            if is_lost:
                del self.faults["-/lose"]
        self._answer(*(_LATER if is_lost else (200, b"", _about(content))))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if not self._is_allowed():
            return
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            wanted = (query.get(name, [""])[0] for name in ("prefix", "delimiter", "start-after"))
            self._answer(200, self._listed(*wanted))
            return
        content = self.objects.get(self._key)
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        headers, status = _about(content), 200
        if (asked := self.headers.get("Range")) is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin = int(first) if first else len(content) - int(last)
            end = min(int(last), len(content) - 1) if first and last else len(content) - 1
            headers["Content-Range"] = f"bytes {begin}-{end}/{len(content)}"
            content, status = content[begin : end + 1], 206
        self._answer(status, content, headers)

    def do_DELETE(self) -> None:
        if not self._is_allowed():
            return
        self.objects.pop(self._key, None)
        self._answer(204, b"")

    def _is_allowed(self) -> bool:
        signed = f"Credential={KEY}/" in self.headers.get("Authorization", "")
        if not signed and _OF_THE_TEST not in self.headers:
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
            return False
        with self.lock:
            left = int(self.faults.get("-/refuse", 0))
            if not left or _OF_THE_TEST in self.headers:
                return True
            self.faults["-/refuse"] = str(left - 1)
        self._answer(*_LATER)
        return False

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    def _listed(self, prefix: str, delimiter: str, after: str) -> bytes:
        found, folders = "", set[str]()
        for key, content in sorted(self.objects.items()):
            if not key.startswith(prefix) or key <= after:
                continue
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if cut:
                folders.add(f"{prefix}{head}{cut}")
                continue
            etag = escape(_about(content)["ETag"])
            found += (
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>{etag}</ETag>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        found += "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()

    def _answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a test says what it finds."""


def _about(content: bytes) -> dict[str, str]:
    return {
        "ETag": f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"',
        "Last-Modified": formatdate(1_767_225_600, usegmt=True),
        "Accept-Ranges": "bytes",
    }


def main(has_conditions: bool) -> None:
    """Serve on a free port, and print the address."""
    _Handler.has_conditions = has_conditions
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1] == "1")
