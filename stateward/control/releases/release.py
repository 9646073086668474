"""Releases: the code and the YAML that drivers are started with, kept so that they can be started again.

A driver that dies is started again as it was, whatever has been deployed meanwhile: new code gets in by a
`run`, a `restart` or an `upgrade`, never by a crash. And an upgrade that fails has something to go back to.

    <home>/releases/code/<digest>/spark_jobs/...      shared by all streams
    <home>/releases/code/<digest>/stateward/...       what `spark_jobs` imports; releases before 0.2 lack it
    <home>/releases/<stream>/<code>-<yaml>/<stream>.yaml

Releases are found by content, so keeping one twice is harmless, and two machines give it the same name.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import stateward
from stateward.contract.storage import replace_file
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
    """A release is not on this machine."""


@dataclass(frozen=True)
class Release:
    """One release of one stream.

    Attributes:
        id: `<digest of the code>-<digest of the YAML>`.
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
    return f"{_code_digest(settings.jobs, _LIBRARY)}-{_spec_digest(spec)}"


def differences(before: str, now: str) -> list[str]:
    """Say in which of its parts one release differs from another: `code`, `YAML`; empty when they are one."""
    pairs = zip(("code", "YAML"), before.split("-"), now.split("-"), strict=True)
    return [name for name, was, is_ in pairs if was != is_]


def upgrade_available(release: str | None, spec: StreamSpec, settings: Settings) -> list[str]:
    """Say what has been deployed since the newest driver was launched; empty when nothing has, or none was.

    Args:
        release: What it was launched with.
        spec: The stream, as its YAML has it now.
        settings: Where the code is.
    """
    return differences(release, release_of(spec, settings)) if release else []


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
    found = _release(layout, stream, f"{_keep_code(layout, settings.jobs)}-{digest}")
    # Written again even if it exists: a file that a full disk cut is complete again.
    replace_file(found.streams / file.name, content)
    found.streams.touch()
    _sweep(layout, stream)
    return found


def find(stream: str, release: str, settings: Settings) -> Release:
    """Return a release that was kept.

    Raises:
        ReleaseError: It is not on this machine.
    """
    found = _release(Layout.of(settings), stream, release)
    if not (found.code / PACKAGE).is_dir() or not (found.streams / f"{stream}.yaml").is_file():
        raise ReleaseError(
            f"stream {stream}: expected its release {release} in {found.streams} and {found.code}, found it"
            " incomplete. Trigger its DAG with the action restart, which takes the current code and YAML."
        )
    # What runs is the newest, however old it is.
    found.streams.touch()
    return found


def _release(layout: Layout, stream: str, release: str) -> Release:
    code, _, _ = release.partition("-")
    folder = layout.releases_dir
    return Release(release, folder / "code" / code, folder / stream / release)


def _code_digest(jobs: Path, library: Path) -> str:
    """Digest the two packages by the paths below them, wherever they lie and whatever the first is called."""
    found = []
    for folder, name in ((jobs, PACKAGE), (library, _LIBRARY.name)):
        for file in sorted(path for path in folder.rglob("*") if _counts(path)):
            place, at = file.relative_to(folder), file.stat()
            if folder == jobs or place.parts[0] in _OF_A_DRIVER:
                found.append((file, f"{name}/{place}", at.st_size, at.st_mtime_ns))
    return _digest_of(tuple(found))


# The operator's page asks for every stream, and reading all of the code takes longer than the rest of it.
@functools.lru_cache(maxsize=4)
def _digest_of(files: tuple[tuple[Path, str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, name, size, _ in files:
        digest.update(f"{name}\0{size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:_DIGITS]


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


_no_cache = shutil.ignore_patterns("__pycache__")


def _not_of_a_driver(folder: str, names: list[str]) -> set[str]:
    if Path(folder) == _LIBRARY:
        return set(names) - _OF_A_DRIVER
    return _no_cache(folder, names)


def _spec_digest(spec: StreamSpec) -> str:
    known = spec.model_dump(mode="json", exclude=set(_NOT_THE_DRIVERS))
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _keep_code(layout: Layout, source: Path) -> str:
    """Keep the current code, if it is not kept yet; returns the digest of what is kept."""
    folder = layout.releases_dir / "code"
    digest = _code_digest(source, _LIBRARY)
    if (folder / digest / PACKAGE).is_dir():
        return digest
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy = Path(temporary) / "code"
        shutil.copytree(source, copy / PACKAGE, ignore=_no_cache)
        shutil.copytree(_LIBRARY, copy / _LIBRARY.name, ignore=_not_of_a_driver)
        digest = _code_digest(copy / PACKAGE, copy / _LIBRARY.name)
        try:
            copy.rename(folder / digest)
        except OSError:
            # Another stream's launch has kept the same code meanwhile.
            if not (folder / digest / PACKAGE).is_dir():
                raise
    return digest


def _sweep(layout: Layout, stream: str) -> None:
    """Remove all but the newest releases of a stream, and code that no release of any stream needs."""
    kept = sorted((layout.releases_dir / stream).iterdir(), key=lambda path: path.stat().st_mtime)
    for old in kept[: -(KEPT_RELEASES + 1)]:
        shutil.rmtree(old, ignore_errors=True)
    releases = [path.name for path in layout.releases_dir.glob("*/*-*")]
    needed = {name.split("-")[0] for name in releases}
    newest = sorted((layout.releases_dir / "code").iterdir(), key=lambda path: path.stat().st_mtime)
    # The newest may be one that another stream is about to keep.
    for old in newest[:-KEPT_RELEASES]:
        if old.name not in needed:
            shutil.rmtree(old, ignore_errors=True)
