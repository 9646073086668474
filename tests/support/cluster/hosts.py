"""Hosts that share nothing but a network: namespaces of their own, on this machine. Needs root and iproute2.

A host has its own network, mounts, processes and name. It does not see the checkout, the virtual
environment's folder, the home folder and the temporary files of this machine; it has the Python environment
at `PYTHON`, and a folder of its own at `OWN`. Everything of a host ends with its first process, and that ends
with this process, so nothing is left behind by a test that is interrupted or killed.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stateward.project.settings import CHECKOUT
from tests.support.waiting import PATIENCE_S, wait_until

PYTHON = Path("/mnt/python")
"""The virtual environment, on a host."""

OWN = Path("/srv")
"""The folder of its own, on a host."""

_TOOLS = ("ip", "unshare", "nsenter", "setpriv", "mount")
_BASE = PYTHON.parent / "base"

# Run as the first process of a host: $1 the environment, $2 the host's folder, $3 the environment's Python,
# the rest what it must not see.
_ENTER = f"""
set -e
mount --make-rprivate /
mount -t tmpfs none {PYTHON.parent}
mkdir {PYTHON} {_BASE}
mount --bind "$1" {PYTHON}
mount --bind "$3" {_BASE}
mount --bind "$2" {OWN}
mount --bind "$2/etc/hosts" /etc/hosts
# Without an empty one a JVM waits for minutes for a name server that is not there.
mount --bind "$2/etc/resolv.conf" "$(realpath /etc/resolv.conf)"
base=$3
shift 3
cd /
for hidden in "$@"; do if [ -d "$hidden" ]; then mount -t tmpfs none "$hidden"; fi; done
# The virtual environment's own Python, which may lie in the home folder.
mkdir -p "$base"
mount --bind {_BASE} "$base"
ip link set lo up
echo ready
exec sleep infinity
"""


def why_not_here() -> str | None:
    """Say what this machine lacks for hosts; None if it has everything."""
    if os.geteuid() != 0:
        return "hosts are namespaces, which need root"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"hosts need {', '.join(missing)} (Debian: iproute2, util-linux)" if missing else None


def hidden_folders(environment: Path) -> list[Path]:
    """What no other host sees of this machine, the checkout that is installed in place included."""
    found = {CHECKOUT, environment.parent, Path.home(), Path(tempfile.gettempdir()).resolve()}
    for file in environment.glob("lib/python*/site-packages/*.pth"):
        found |= {Path(line) for line in file.read_text().splitlines() if line.startswith("/")}
    return sorted(found)


@dataclass
class Host:
    """One host.

    Attributes:
        name: Its name.
        address: Its IP address.
        folder: Its own folder, as this machine sees it.
        holder: Its first process, as this machine sees it.
        pid: The process whose namespaces are the host's.
    """

    name: str
    address: str
    folder: Path
    holder: subprocess.Popen[str]
    pid: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def link(self) -> str:
        """The end of its cable at the switch."""
        return f"to-{self.name}"[:15]

    def command(self, *arguments: object) -> list[str]:
        """Return the command that runs another one on this host."""
        return ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "--wd=/", *map(str, arguments)]

    def as_seen(self, path: Path) -> Path:
        """Return where the host sees a path in its own folder."""
        return OWN / path.relative_to(self.folder)

    def run(self, *arguments: object) -> str:
        """Run a command to its end, and return what it says."""
        done = subprocess.run(
            self.command(*arguments), env=self.environment({}), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{self.name}: {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, log: str, environment: Mapping[str, str], *arguments: object) -> None:
        """Start a daemon; its output goes to a file in the host's folder."""
        with (self.folder / log).open("ab") as output:
            self.started.append(
                subprocess.Popen(
                    self.command(*arguments),
                    env=self.environment(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            )

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process: nothing of this one's."""
        java = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
        path = f"{PYTHON}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**java, "PATH": path, "HOME": str(OWN), **more}

    def has_ended(self) -> bool:
        """Whether a daemon of this host has ended."""
        return any(process.poll() is not None for process in self.started)

    def logs(self) -> str:
        """Return the ends of the logs in its folder."""
        found = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{self.name}/{log.name}: {log.read_text()[-1500:]}" for log in found)

    def kill(self) -> None:
        """End every process of the host at once, as a power cut does; it stays away."""
        if self.holder.poll() is not None:
            return
        os.kill(self.pid, signal.SIGKILL)
        self.holder.wait(PATIENCE_S)
        for process in self.started:
            process.wait(PATIENCE_S)


class Network:
    """A switch that hosts are plugged into, and this machine as one of them.

    Args:
        folder: Takes the hosts' own folders.
        environment: The virtual environment that hosts have at `PYTHON`.
    """

    def __init__(self, folder: Path, environment: Path = Path(sys.prefix)) -> None:
        self._folder = folder
        self._environment = environment.resolve()
        self.hosts: dict[str, Host] = {}
        self._numbers = itertools.count(10)
        self._holder = _hold("exec unshare -n --kill-child --fork sh -c 'echo ready; exec sleep infinity'")
        self._switch = _first_child(self._holder)
        self.link = f"sw-{os.getpid()}"
        # Another process's hosts have other addresses.
        self._subnet = f"10.{128 + os.getpid() // 256 % 128}.{os.getpid() % 256}"
        self.address = f"{self._subnet}.1"

    def open(self) -> None:
        """Make the switch, and plug this machine in."""
        self._in_switch("ip", "link", "add", "switch", "type", "bridge")
        self._in_switch("ip", "link", "set", "switch", "up")
        _run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "to-here", "netns", self._switch)
        self._plug("to-here")
        _run("ip", "address", "add", f"{self.address}/24", "dev", self.link)
        _run("ip", "link", "set", self.link, "up")

    def add(self, *names: str) -> None:
        """Add hosts; all of them know each other by name."""
        addresses = {name: f"{self._subnet}.{next(self._numbers)}" for name in names}
        lines = ["127.0.0.1 localhost", f"{self.address} here"]
        lines += [f"{host.address} {host.name}" for host in self.hosts.values()]
        lines += [f"{address} {name}" for name, address in addresses.items()]
        for name in (*self.hosts, *addresses):
            etc = self._folder / name / "etc"
            etc.mkdir(parents=True, exist_ok=True)
            # In place: a host that is up has it mounted.
            (etc / "hosts").write_text("\n".join([*lines, ""]))
            (etc / "resolv.conf").touch()
        for name, address in addresses.items():
            self.hosts[name] = self._added(name, address, self._folder / name)

    def _added(self, name: str, address: str, own: Path) -> Host:
        script = own / "etc" / "enter.sh"
        script.write_text(_ENTER)
        arguments = [script, self._environment, own, sys.base_prefix, *hidden_folders(self._environment)]
        inner = " ".join(f"'{one}'" for one in arguments)
        holder = _hold(f"exec unshare -n -m -u -i -p --mount-proc --kill-child --fork sh {inner}")
        host = Host(name, address, own, holder, _first_child(holder))
        host.run("hostname", name)
        _run("ip", "link", "add", host.link, "netns", self._switch, *_peer("eth0", host.pid))
        self._plug(host.link)
        host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        return host

    def drop(self, name: str) -> None:
        """End every process of a host at once, and forget it."""
        self.hosts.pop(name).kill()

    def cut(self, name: str) -> None:
        """Pull the cable of a host."""
        self._in_switch("ip", "link", "set", self.hosts[name].link, "down")

    def mend(self, name: str) -> None:
        """Plug the cable of a host in again."""
        self._in_switch("ip", "link", "set", self.hosts[name].link, "up")

    def close(self) -> None:
        """End all hosts and the switch; the kernel removes their namespaces and cables."""
        for host in self.hosts.values():
            host.kill()
        os.kill(self._switch, signal.SIGKILL)
        self._holder.wait(PATIENCE_S)
        link = Path("/sys/class/net") / self.link
        wait_until(lambda: not link.exists(), PATIENCE_S, f"the kernel removes {link}")

    def _plug(self, link: str) -> None:
        self._in_switch("ip", "link", "set", link, "master", "switch")
        self._in_switch("ip", "link", "set", link, "up")

    def _in_switch(self, *arguments: object) -> None:
        _run("nsenter", "-t", self._switch, "-n", *arguments)


def _peer(name: str, pid: int) -> Sequence[object]:
    return ("type", "veth", "peer", "name", name, "netns", pid)


def _hold(script: str) -> subprocess.Popen[str]:
    """Start the first process of a namespace, which says that it is ready; it ends with this process."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said == "ready\n", f"expected a namespace, found: {said}{process.stdout.read()}"
    return process


def _first_child(holder: subprocess.Popen[str]) -> int:
    found = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
    assert len(found) == 1, f"expected one process in the namespace, found {found}"
    return int(found[0])


def _run(*arguments: object) -> None:
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
