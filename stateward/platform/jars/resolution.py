"""Resolve `jars.toml` into `jars.lock`: what to fetch, with checksums."""

from __future__ import annotations

import re
import tempfile
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import files
from pathlib import Path
from typing import Any

from stateward.platform.jars.fetch import Jar, Lock, download, maven_context, sha256_of
from stateward.project.settings import CHECKOUT

WISHES_FILE = CHECKOUT / "jars.toml"


class JarResolutionError(RuntimeError):
    """`jars.toml` cannot be resolved."""


@dataclass(frozen=True)
class WishedSet:
    """One table of `jars.toml`; see the comments there."""

    resolve: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    exclude: frozenset[str] = field(default_factory=frozenset)
    provided_by: str | None = None


def read_wishes(path: Path = WISHES_FILE) -> dict[str, WishedSet]:
    """Return the sets that `jars.toml` asks for.

    Raises:
        JarResolutionError: an unknown field or coordinates that are not `group:artifact:version`.
    """
    result = {}
    for name, table in tomllib.loads(path.read_text()).items():
        unknown = set(table) - {"resolve", "add", "exclude", "provided_by"}
        if unknown:
            raise JarResolutionError(f"{path}: [{name}] has unknown fields {sorted(unknown)}")
        for coordinates in (*table.get("resolve", ()), *table.get("add", ())):
            if len(coordinates.split(":")) != 3:
                raise JarResolutionError(f"{path}: [{name}] {coordinates!r} is not group:artifact:version")
        result[name] = WishedSet(
            resolve=tuple(table.get("resolve", ())),
            add=tuple(table.get("add", ())),
            exclude=frozenset(table.get("exclude", ())),
            provided_by=table.get("provided_by"),
        )
    return result


def artifact_of(file_name: str) -> str:
    """Return the artifact id in the name of a JAR: `zstd-jni` for `zstd-jni-1.5.7-3.jar`."""
    match = re.match(r"(.+?)-\d[^/]*\.jar$", file_name)
    return match.group(1) if match else file_name.removesuffix(".jar")


def select(resolved: list[str], wishes: WishedSet, provided: set[str]) -> list[str]:
    """Return the coordinates to take: what was resolved, less what is excluded or shipped, plus additions.

    Args:
        resolved: `group:artifact:version` of the wished JARs and all they depend on.
        wishes: the set.
        provided: artifact ids that are on the class path anyway.
    """
    added = {coordinates.rsplit(":", 1)[0] for coordinates in wishes.add}
    taken = []
    for coordinates in resolved:
        group, artifact, _ = coordinates.split(":")
        key = f"{group}:{artifact}"
        if key not in wishes.exclude and key not in added and artifact not in provided:
            taken.append(coordinates)
    return sorted({*taken, *wishes.add})


def resolve(wishes: dict[str, WishedSet], repository: str | None = None) -> Lock:
    """Return the pinned sets; downloads every JAR to know its checksum.

    Args:
        wishes: content of `jars.toml`.
        repository: base address of a Maven repository to use instead of the default one.
    """
    lock: Lock = {}
    with tempfile.TemporaryDirectory(prefix="stateward-lock-") as folder:
        cache = Path(folder)
        context = maven_context(cache, repository)
        for name, wished in wishes.items():
            resolved = [one for root in wished.resolve for one in _tree(context, root)]
            chosen = select(resolved, wished, _provided(wished.provided_by))
            lock[name] = [_pin(coordinates, cache, repository) for coordinates in chosen]
    return lock


def _tree(context: Any, coordinates: str) -> list[str]:
    root = context.create_dependency(coordinates)
    _, dependencies = context.resolver.resolve([root])
    needed = [root, *(one for one in dependencies if one.scope in (None, "compile", "runtime"))]
    return [f"{one.groupId}:{one.artifactId}:{one.version}" for one in needed]


def _provided(package: str | None) -> set[str]:
    if package is None:
        return set()
    return {artifact_of(file.name) for file in files(package) or () if file.suffix == ".jar"}


def _pin(coordinates: str, cache: Path, repository: str | None) -> Jar:
    group, artifact, version = coordinates.split(":")
    path = download(group, artifact, version, cache, repository)
    return Jar(group, artifact, version, sha256=sha256_of(path), size=path.stat().st_size)
