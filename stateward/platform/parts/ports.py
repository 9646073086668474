"""Ports: is one free, who has it, and which is free."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path

_EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_EPHEMERAL_PORT = 32_768
_LOWEST_PORT = 20_000
# A process that was killed has its ports until the kernel has freed its memory, and cannot be seen meanwhile.
_ENDING_S = 10.0


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
    """Return `count` different ports that were free a moment ago.

    They lie below the range from which the system takes the local ports of outgoing connections: a server
    that is restarted must find its port free, whatever has connected to whatever meanwhile.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(_LOWEST_PORT, _first_ephemeral_port())
        if port not in ports and is_free(port, host):
            ports.append(port)
    return ports


def _first_ephemeral_port() -> int:
    try:
        first = int(_EPHEMERAL_PORTS.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_EPHEMERAL_PORT
    # A range that begins at 1024 leaves no room below it.
    return first if first > _LOWEST_PORT + 1000 else _USUAL_EPHEMERAL_PORT


def owner_of(port: int) -> tuple[int, str] | None:
    """Return the process that listens on `port`, as (pid, command line), or None if it cannot be seen."""
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
        return connection.pid, command
    return None


def require_free(
    ports: Mapping[str, int], host: str = "127.0.0.1", ignore_pids: Collection[int] = frozenset()
) -> None:
    """Check that each port is free.

    Args:
        ports: name of the setting (`STATEWARD_KAFKA_PORT`) to port.
        host: address the servers will listen on.
        ignore_pids: processes whose ports count as free, because they are about to end.

    Raises:
        PortInUseError: the message names every taken port, its owner if it can be seen, and the setting.
            A port whose owner cannot be seen is waited for.
    """
    deadline = time.monotonic() + _ENDING_S
    while taken := _taken(ports, host, ignore_pids):
        if all(taken.values()) or time.monotonic() >= deadline:
            raise PortInUseError("cannot start: " + "\n  ".join(taken))
        time.sleep(0.1)


def _taken(ports: Mapping[str, int], host: str, ignore_pids: Collection[int]) -> dict[str, bool]:
    """Return what is wrong with the ports, each with whether it stays wrong."""
    problems: dict[str, bool] = {}
    seen: dict[int, str] = {}
    for setting, port in ports.items():
        if port in seen:
            problems[f"port {port} is given to both {seen[port]} and {setting}"] = True
        elif not is_free(port, host):
            owner = owner_of(port)
            if owner and owner[0] in ignore_pids:
                continue
            by = f"pid {owner[0]} ({owner[1][:80]})" if owner else "another process"
            remedy = f"end it, or set {setting} to a free port"
            problems[f"port {port} is in use by {by}; {remedy}"] = owner is not None
        seen.setdefault(port, setting)
    return problems
