"""Ports: is one free, who has it, and which is free."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping


class PortInUseError(RuntimeError):
    """A port that a part needs is taken by another process."""


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a server could listen on `host:port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # What servers do: a port whose last connections are in TIME_WAIT is free for them.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return `count` different ports that were free a moment ago."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            probe.bind((host, 0))
            ports.append(int(probe.getsockname()[1]))
        return ports


def owner_of(port: int) -> str | None:
    """Return the process that listens on `port`, as "pid 42 (java -Xmx...)", or None when it cannot be seen."""
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or not connection.pid:
            continue
        if connection.laddr.port != port:
            continue
        try:
            command = " ".join(psutil.Process(connection.pid).cmdline())
        except psutil.Error:
            command = "?"
        return f"pid {connection.pid} ({command[:80]})"
    return None


def require_free(ports: Mapping[str, int], host: str = "127.0.0.1") -> None:
    """Check that each port is free.

    Args:
        ports: name of the setting (`STATEWARD_KAFKA_PORT`) to port.
        host: address the servers will listen on.

    Raises:
        PortInUseError: the message names every taken port, its owner if it can be seen, and the setting.
    """
    problems = []
    seen: dict[int, str] = {}
    for setting, port in ports.items():
        if port in seen:
            problems.append(f"port {port} is given to both {seen[port]} and {setting}")
        elif not is_free(port, host):
            owner = owner_of(port)
            by = f"in use by {owner}" if owner else "in use by another process"
            problems.append(f"port {port} is {by}; end that process or set {setting} to a free port")
        seen.setdefault(port, setting)
    if problems:
        raise PortInUseError("cannot start: " + "\n  ".join(problems))
