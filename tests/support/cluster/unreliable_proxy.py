"""A reverse proxy before an S3 server that answers 503 or late when a test says so; a program of a host.

What it lets through is answered by the server behind it. All headers are passed on as they are, because a
signature covers them, the name of the host among them. It imports the standard library alone: the hosts of
tests have no checkout.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

CONTROL = "/-/faults"
"""PUT sets what fails, as JSON; GET answers with what has failed so far, by client."""

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "expect"}
_SECONDS = 120


class Proxy(BaseHTTPRequestHandler):
    """Passes one client's requests on."""

    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits for the client's delayed acknowledgement.
    disable_nagle_algorithm = True
    server_at: ClassVar[tuple[str, int]]
    faults: ClassVar[dict[str, float]] = {"refused": 0.0, "late": 0.0, "most_s": 0.0}
    answered: ClassVar[defaultdict[str, Counter[str]]] = defaultdict(Counter)
    chance = random.Random(5)
    lock = threading.Lock()

    def _pass(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == CONTROL:
            self._control(content)
            return
        late_s = self._fault()
        if late_s is None:
            self._answer(503, "Slow Down", {"Content-Type": "application/xml"}, _SLOW_DOWN)
            return
        time.sleep(late_s)
        behind = HTTPConnection(*self.server_at, timeout=_SECONDS)
        try:
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_ONE_CONNECTION:
                    behind.putheader(name, value)
            behind.endheaders(content)
            answer = behind.getresponse()
            headers = {name: value for name, value in answer.getheaders() if name.lower() != "date"}
            self._answer(answer.status, answer.reason, headers, answer.read())
        finally:
            behind.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass

    def _fault(self) -> float | None:
        """How late to answer, seconds; None: refuse it."""
        client = self.headers.get("User-Agent", "?").replace("/", " ").split()[0]
        with self.lock:
            is_refused = self.chance.random() < self.faults["refused"]
            is_late = not is_refused and self.chance.random() < self.faults["late"]
            self.answered[client]["refused" if is_refused else "late" if is_late else "passed"] += 1
            return None if is_refused else self.chance.uniform(0, self.faults["most_s"]) * is_late

    def _control(self, content: bytes) -> None:
        if self.command == "PUT":
            self.faults.update(json.loads(content))
        self._answer(200, "OK", {}, json.dumps(self.answered).encode())

    def _answer(self, status: int, reason: str, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status, reason)
        for name, value in headers.items():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name in headers} and status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a test asks what has failed."""


class Server(ThreadingHTTPServer):
    """Takes the connections of many clients at once."""

    request_queue_size = 256


if __name__ == "__main__":
    own_host, own_port, host, port = sys.argv[1:]
    Proxy.server_at = (host, int(port))
    Server((own_host, int(own_port)), Proxy).serve_forever()
