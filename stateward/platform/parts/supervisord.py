"""The process supervisor (supervisord): its configuration, and a client of its XML-RPC interface."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

from stateward.platform.parts.registry import Part, launch_command, parts_of
from stateward.project.layout import Layout
from stateward.project.settings import Settings

# Unix socket paths end at 104 (macOS) or 108 characters, and supervisord appends its pid while it binds.
_SOCKET_PATH_LIMIT = 90


class SupervisorError(RuntimeError):
    """The supervisor did not start or did not do what it was asked."""


@dataclass(frozen=True)
class PartState:
    """One part as the supervisor sees it; `state` is its own word (RUNNING, FATAL, ...)."""

    name: str
    state: str
    pid: int | None
    started_at: float | None
    """Seconds since 1970."""
    message: str


def socket_path(layout: Layout) -> Path:
    """Return the control socket: in the supervisor's folder, or in a short private one."""
    path = layout.supervisor_dir / "supervisor.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
        return path
    digest = hashlib.sha256(os.fsencode(layout.home)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"stateward-{os.getuid()}-{digest}" / "s.sock"


def render(settings: Settings) -> str:
    """Return the content of `supervisord.conf`. It holds no secrets: those are in the environment only."""
    layout = Layout.of(settings)
    folder = layout.supervisor_dir
    lines = [
        "[unix_http_server]",
        f"file={_value(socket_path(layout))}",
        "chmod=0700",
        "[supervisord]",
        f"directory={_value(settings.project)}",
        f"pidfile={_value(folder / 'supervisord.pid')}",
        f"logfile={_value(folder / 'logs' / 'supervisord.log')}",
        f"childlogdir={_value(folder / 'logs')}",
        "logfile_maxbytes=5MB",
        "logfile_backups=1",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for part in parts_of(settings):
        lines += _program(part, layout)
    return "\n".join(lines) + "\n"


def _program(part: Part, layout: Layout) -> list[str]:
    return [
        f"[program:{part.name}]",
        f"command={_value(shlex.join(launch_command(part)))}",
        # `up` starts the parts itself: some wait for others, and for the database.
        "autostart=false",
        "autorestart=true",
        "startsecs=2",
        "startretries=20",
        "stopsignal=TERM",
        f"stopwaitsecs={part.stop_wait_s}",
        "stopasgroup=true",
        "killasgroup=true",
        "redirect_stderr=true",
        f"stdout_logfile={_value(layout.part_log(part.name))}",
        "stdout_logfile_maxbytes=10MB",
        "stdout_logfile_backups=2",
    ]


def _value(value: Path | str) -> str:
    # supervisord expands %(name)s in every value.
    return str(value).replace("%", "%%")


class Supervisor:
    """The supervisor of one installation."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folder = layout.supervisor_dir
        self._socket = socket_path(layout)

    @property
    def pid_file(self) -> Path:
        """File with the supervisor's process id."""
        return self._folder / "supervisord.pid"

    def is_running(self) -> bool:
        """Return whether the supervisor answers."""
        if not self._socket.exists():
            return False
        try:
            return bool(self._rpc().getState()["statename"] == "RUNNING")
        except (OSError, Fault):
            return False

    def start(self, settings: Settings, environ: dict[str, str], timeout_s: float = 20) -> None:
        """Write the configuration and start the supervisor, detached, without any part.

        Raises:
            SupervisorError: it does not answer within `timeout_s` seconds.
        """
        (self._folder / "logs").mkdir(parents=True, exist_ok=True)
        self.clear_files()
        # After clearing, which removes a socket's own folder with it.
        self._socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._socket.parent.stat().st_uid != os.getuid():
            # The temporary folder is everyone's; whoever owns the socket's folder commands the platform.
            raise SupervisorError(
                f"{self._socket.parent} belongs to another user; use a shorter STATEWARD_HOME"
            )
        configuration = self._folder / "supervisord.conf"
        configuration.write_text(render(settings))
        (self._folder / "settings.json").write_text(json.dumps(settings.environment(), indent=1))
        command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(configuration)]
        # A new session: Ctrl-C in the terminal is for the command line, not for the platform.
        run = subprocess.run(
            command,
            env=environ,
            cwd=settings.project,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        if run.returncode != 0:
            raise SupervisorError(f"supervisord did not start: {(run.stdout + run.stderr).strip()[-800:]}")
        deadline = time.monotonic() + timeout_s
        while not self.is_running():
            if time.monotonic() > deadline:
                log = self._folder / "logs" / "supervisord.log"
                raise SupervisorError(
                    f"supervisord does not answer at {self._socket} after {timeout_s:g} s; see {log}"
                )
            time.sleep(0.1)

    def started_with(self) -> dict[str, str]:
        """Return the `STATEWARD_*` settings the running supervisor was started with."""
        try:
            values: dict[str, str] = json.loads((self._folder / "settings.json").read_text())
        except (OSError, ValueError):
            return {}
        return values

    def states(self) -> dict[str, PartState]:
        """Return the state of each part by its name; empty when the supervisor does not answer."""
        if not self._socket.exists():
            return {}
        try:
            infos: list[dict[str, Any]] = self._rpc().getAllProcessInfo()
        except (OSError, Fault):
            return {}
        return {
            info["name"]: PartState(
                name=info["name"],
                state=info["statename"],
                pid=info["pid"] or None,
                started_at=float(info["start"]) if info["pid"] else None,
                message=info["spawnerr"] or "",
            )
            for info in infos
        }

    def start_part(self, part: Part) -> None:
        """Start a part unless it is there already.

        Raises:
            SupervisorError: the supervisor refused.
        """
        state = self.states().get(part.name)
        if state and state.state in ("RUNNING", "STARTING", "BACKOFF"):
            return
        self._call("startProcess", part.name, False)

    def stop_parts(self, parts: tuple[Part, ...]) -> None:
        """Stop parts at the same time, each within its `stop_wait_s`, and wait until they have ended."""
        names = {part.name for part in parts}
        for name in names:
            # NOT_RUNNING is what was wanted.
            with contextlib.suppress(SupervisorError):
                self._call("stopProcess", name, False)
        deadline = time.monotonic() + max(part.stop_wait_s for part in parts) + 10
        ended = {"STOPPED", "EXITED", "FATAL", "UNKNOWN"}
        while time.monotonic() < deadline:
            if all(state.state in ended for name, state in self.states().items() if name in names):
                return
            time.sleep(0.1)

    def shut_down(self) -> None:
        """Ask the supervisor to end itself; the caller sees to it that it does."""
        with contextlib.suppress(OSError, Fault):
            self._rpc().shutdown()

    def clear_files(self) -> None:
        """Remove the socket and the pid file of a supervisor that has ended."""
        self._socket.unlink(missing_ok=True)
        self.pid_file.unlink(missing_ok=True)
        if self._socket.parent != self._folder:
            with contextlib.suppress(OSError):
                self._socket.parent.rmdir()

    def _call(self, method: str, *arguments: object) -> Any:
        try:
            return getattr(self._rpc(), method)(*arguments)
        except Fault as fault:
            raise SupervisorError(f"supervisord, {method}{arguments}: {fault.faultString}") from fault
        except OSError as error:
            raise SupervisorError(f"supervisord does not answer at {self._socket}: {error}") from error

    def _rpc(self) -> Any:
        from supervisor.xmlrpc import SupervisorTransport

        transport = SupervisorTransport(serverurl=f"unix://{self._socket}")
        return ServerProxy("http://localhost", transport=transport).supervisor
