"""Find a Java runtime that Spark 4.2 and Kafka 4.2 both support."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = (17, 21)
INSTALL_HINT = (
    "Install one, for example `apt-get install openjdk-17-jre-headless` (Debian 12, Ubuntu), "
    "`dnf install java-17-openjdk-headless` (Fedora) or `brew install openjdk@17` (macOS), "
    "or point JAVA_HOME at one that is there."
)


class JavaNotFoundError(RuntimeError):
    """No supported Java runtime on this machine."""


def parse_version(output: str) -> int | None:
    """Return the feature version (17 for 17.0.15) in the output of `java -version`, or None."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if match is None:
        return None
    major, minor = int(match.group(1)), match.group(2)
    return int(minor) if major == 1 and minor else major


@functools.cache
def find_java() -> Path:
    """Return the folder to use as JAVA_HOME: that of JAVA_HOME, else that of `java` on the PATH.

    Raises:
        JavaNotFoundError: neither is Java 17 or 21; the message says what was found and what to install.
    """
    found: list[str] = []
    for source, java in _candidates():
        if not java.exists():
            found.append(f"{source}: no {java}")
            continue
        version = _version_of(java)
        if version in SUPPORTED:
            return java.parent.parent
        found.append(f"{source}: {java} is Java {version or 'of an unknown version'}")
    wanted = " or ".join(map(str, SUPPORTED))
    raise JavaNotFoundError(
        f"Java {wanted} is needed; found {'; '.join(found) or 'no java on the PATH and no JAVA_HOME'}. "
        + INSTALL_HINT
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        # Resolved, because /usr/bin/java is a link whose grandparent is no JAVA_HOME.
        yield "PATH", Path(on_path).resolve()


def _version_of(java: Path) -> int | None:
    try:
        run = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(run.stderr + run.stdout)


if __name__ == "__main__":
    # `make setup` asks before it downloads anything.
    try:
        find_java()
    except JavaNotFoundError as error:
        raise SystemExit(f"setup: {error}") from None
