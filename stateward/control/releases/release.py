"""Releases: the code and the YAML that drivers are started with, kept so that they can be started again.

A driver that dies is started again as it was, whatever has been deployed meanwhile: new code gets in by a
`run`, a `restart` or an `upgrade`, never by a crash. And an upgrade that fails has something to go back to.

    <home>/releases/code/<code>-<library>/spark_jobs/...   the stream's package, and those that it imports
    <home>/releases/code/<code>-<library>/stateward/...    what a driver needs of the library
    <home>/releases/<stream>/<code>-<library>-<yaml>/<stream>.yaml

What is launched is stored for other hosts as well (`release_storage`).

A release of before had one digest of all streams' code and the library together, `<code>-<yaml>`; it can
still be started.

Releases are found by content, so keeping one twice is harmless, and two machines give it the same name.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import stateward
from stateward.contract.storage import replace_file
from stateward.control.releases import release_storage
from stateward.control.releases.code_zip import code_files
from stateward.control.releases.imports import packages_of
from stateward.project.layout import Layout
from stateward.project.project import PACKAGE
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, spec_of

KEPT_RELEASES = 5
"""Earlier releases of each stream that stay."""

_LIBRARY = Path(stateward.__file__).parent
# What a driver imports of the library: an edit of a page, say, makes no other release.
_OF_A_DRIVER = frozenset({"__init__.py", "driver.py", "contract", "project", "rendering", "runtime", "state"})
_DIGITS = 12
_VERSION = version("stateward")
# The control plane reads these at each observation; a driver does not use them.
_NOT_THE_DRIVERS = frozenset(
    {
        "desired",
        "description",
        "owner",
        "health",
        "restart",
        "quality",
        "savepoints",
        "state_care",
        "state_export",
        "reconciliation",
    }
)


class ReleaseError(RuntimeError):
    """A release is neither on this machine nor in the storage."""


@dataclass(frozen=True)
class Release:
    """One release of one stream.

    Attributes:
        id: `<digest of the stream's code>-<library>-<digest of the YAML>`; the library's part is its version
            and a digest, as in `0.2.0.3f8e...`.
        code: The folder in which the packages `spark_jobs` and `stateward` lie.
        streams: The folder in which the stream's YAML lies.
    """

    id: str
    code: Path
    streams: Path


def release_of(spec: StreamSpec, settings: Settings) -> str:
    """Name the release that the deployed code and the current YAML form.

    Only what a driver is started with counts: not the limits of its health, say, and no comment.
    """
    return f"{_code_of(spec.stream, settings.jobs, _LIBRARY)}-{_spec_digest(spec)}"


def differences(before: str, now: str) -> list[str]:
    """Say in which parts one release differs from another: `code`, `library`, `YAML`."""
    *old, old_yaml = before.split("-")
    *new, new_yaml = now.split("-")
    if len(old) == len(new):
        found = [name for name, was, is_ in zip(("code", "library"), old, new, strict=False) if was != is_]
    else:
        # Of before, when the code and the library had one digest.
        found = ["code"]
    return found if old_yaml == new_yaml else [*found, "YAML"]


def upgrade_available(release: str | None, spec: StreamSpec, settings: Settings) -> list[str]:
    """Say what has been deployed since the newest driver was launched; empty when nothing has, or none was.

    Args:
        release: What it was launched with.
        spec: The stream, as its YAML has it now.
        settings: Where the code is.
    """
    return differences(release, release_of(spec, settings)) if release else []


def changed_files(stream: str, release: str, settings: Settings) -> list[str]:
    """Name the files of code and library that differ from those of a release, by their paths in it.

    Raises:
        ReleaseError: The release is neither on this machine nor in the storage.
        OSError: The storage cannot be read.
    """
    code = find(stream, release, settings).code
    kept = _by_name(stream, code / PACKAGE, code / _LIBRARY.name)
    now = _by_name(stream, settings.jobs, _LIBRARY)
    edited = (name for name in kept.keys() & now.keys() if kept[name].read_bytes() != now[name].read_bytes())
    return sorted({*(kept.keys() ^ now.keys()), *edited})


def _by_name(stream: str, jobs: Path, library: Path) -> dict[str, Path]:
    """The files that a driver may import, by their paths in a release."""
    members = (*((jobs, PACKAGE, one) for one in packages_of(stream, jobs)),)
    members += (*((library, _LIBRARY.name, one) for one in _OF_A_DRIVER),)
    return {
        f"{package}/{file.relative_to(folder)}": file
        for folder, package, one in members
        for file in code_files(folder / one)
    }


def keep(stream: str, settings: Settings) -> Release:
    """Keep the current release, if it is not kept yet, and remove the oldest of the stream's others.

    It is named by what has been kept, so that an edit in the middle makes another release, and never one
    whose name says something else than its content.

    Raises:
        OSError: It cannot be read or written.
        SpecError: The stream's YAML is invalid.
    """
    layout = Layout.of(settings)
    file = settings.streams / f"{stream}.yaml"
    content = file.read_bytes()
    digest = _spec_digest(spec_of(content, file))
    found = _release(layout, stream, f"{_keep_code(layout, stream, settings.jobs)}-{digest}")
    # Written again even if it exists: a file that a full disk cut is complete again.
    replace_file(found.streams / file.name, content)
    found.streams.touch()
    _sweep(layout, stream)
    return found


def find(stream: str, release: str, settings: Settings) -> Release:
    """Return a release that was kept here, or stored by another host.

    Raises:
        ReleaseError: It is neither on this machine nor in the storage.
        OSError: The storage cannot be read.
    """
    layout = Layout.of(settings)
    found = _release(layout, stream, release)
    yaml = found.streams / f"{stream}.yaml"
    is_here = (found.code / PACKAGE).is_dir() and yaml.is_file()
    if not is_here and not release_storage.fetch(layout, stream, release, found.code, yaml):
        raise ReleaseError(
            f"stream {stream}: expected its release {release} in {found.streams} and {found.code}, or in"
            f" {layout.releases_uri}, found it incomplete. Trigger its DAG with the action restart, which"
            " takes the current code and YAML."
        )
    # What runs is the newest, however old it is.
    found.streams.touch()
    return found


def store(stream: str, release: Release, settings: Settings) -> None:
    """Store a release that is about to be launched, so that other hosts can start it again.

    Raises:
        OSError: It cannot be read or written.
    """
    yaml = release.streams / f"{stream}.yaml"
    release_storage.store(
        Layout.of(settings), stream, release.id, code=release.code, yaml=yaml, kept=KEPT_RELEASES
    )


def _release(layout: Layout, stream: str, release: str) -> Release:
    code, _, _ = release.rpartition("-")
    folder = layout.releases_dir
    return Release(release, folder / "code" / code, folder / stream / release)


def _code_of(stream: str, jobs: Path, library: Path) -> str:
    """Return the first two parts of a release's id; a path counts by where it is below its package."""
    code = _digest_below(jobs, packages_of(stream, jobs))
    return f"{code}-{_VERSION}.{_digest_below(library, _OF_A_DRIVER)}"


def _digest_below(folder: Path, names: Iterable[str]) -> str:
    found = []
    for file in sorted(path for name in names for path in code_files(folder / name)):
        at = file.stat()
        found.append((file, str(file.relative_to(folder)), at.st_size, at.st_mtime_ns))
    return _digest_of(tuple(found))


# The operator's page asks for every stream, and reading all of the code takes longer than the rest of it.
@functools.lru_cache(maxsize=64)
def _digest_of(files: tuple[tuple[Path, str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, name, size, _ in files:
        digest.update(f"{name}\0{size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:_DIGITS]


_no_cache = shutil.ignore_patterns("__pycache__")


def _only(top: Path, wanted: Collection[str]) -> Callable[[str, list[str]], set[str]]:
    """Return what `copytree` leaves out, so that it copies some members of a folder, without caches."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        return set(names) - set(wanted) if Path(folder) == top else _no_cache(folder, names)

    return left_out


def _spec_digest(spec: StreamSpec) -> str:
    known = spec.model_dump(mode="json", exclude=set(_NOT_THE_DRIVERS))
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _keep_code(layout: Layout, stream: str, source: Path) -> str:
    """Keep the current code, if it is not kept yet; returns the digests of what is kept."""
    folder = layout.releases_dir / "code"
    digest = _code_of(stream, source, _LIBRARY)
    if (folder / digest / PACKAGE).is_dir():
        return digest
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy = Path(temporary) / "code"
        shutil.copytree(source, copy / PACKAGE, ignore=_only(source, packages_of(stream, source)))
        shutil.copytree(_LIBRARY, copy / _LIBRARY.name, ignore=_only(_LIBRARY, _OF_A_DRIVER))
        digest = _code_of(stream, copy / PACKAGE, copy / _LIBRARY.name)
        try:
            copy.rename(folder / digest)
        except OSError:
            # Another launch has kept the same code meanwhile.
            if not (folder / digest / PACKAGE).is_dir():
                raise
    return digest


def _sweep(layout: Layout, stream: str) -> None:
    """Remove all but the newest releases of a stream, and code that no release of any stream needs."""
    kept = sorted((layout.releases_dir / stream).iterdir(), key=lambda path: path.stat().st_mtime)
    for old in kept[: -(KEPT_RELEASES + 1)]:
        shutil.rmtree(old, ignore_errors=True)
    releases = [path.name for path in layout.releases_dir.glob("*/*-*")]
    needed = {name.rpartition("-")[0] for name in releases}
    newest = sorted((layout.releases_dir / "code").iterdir(), key=lambda path: path.stat().st_mtime)
    # The newest may be one that another stream is about to keep.
    for old in newest[:-KEPT_RELEASES]:
        if old.name not in needed:
            shutil.rmtree(old, ignore_errors=True)
