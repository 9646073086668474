"""JARs: the pinned sets of `jars.lock`, fetched once and verified by checksum."""

from __future__ import annotations

import hashlib
import importlib
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tenacity import retry, stop_after_attempt

from stateward.project.settings import Settings

# A link to that of the repository; a file in the wheel.
LOCK_FILE = Path(__file__).parent / "jars.lock"
# Sets that an installation has only if it asks for them.
S3_LOCK_FILE = LOCK_FILE.with_name("s3_jars.lock")
_THREADS = 4
_ATTEMPTS = 3

Report = Callable[["Jar"], None]


class JarsMissingError(RuntimeError):
    """JARs that a part needs are not there."""


class JarFetchError(RuntimeError):
    """A JAR could not be fetched, or is not the one that was pinned."""


@dataclass(frozen=True, order=True)
class Jar:
    """One pinned JAR.

    Attributes:
        group, artifact, version: Maven coordinates.
        sha256: of the file, in hexadecimal.
        size: of the file, bytes.
    """

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def coordinates(self) -> str:
        """Return `group:artifact:version`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """Name of the file in its set's folder."""
        return f"{self.artifact}-{self.version}.jar"

    def is_whole(self, path: Path) -> bool:
        """Return whether `path` is exactly this JAR."""
        return path.is_file() and path.stat().st_size == self.size and sha256_of(path) == self.sha256


Lock = dict[str, list[Jar]]
"""Name of a set ("spark", "kafka") to its JARs."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_lock(path: Path = LOCK_FILE) -> Lock:
    """Return the pinned sets.

    Raises:
        JarsMissingError: the file is missing or not a lock.
    """
    try:
        values = tomllib.loads(path.read_text())
        return {
            name: [_jar(entry["jar"], entry["sha256"], entry["size"]) for entry in entries]
            for name, entries in values.items()
        }
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise JarsMissingError(
            f"{path} is not a readable lock ({error}); restore it, or run `make lock`"
        ) from error


def _jar(coordinates: str, sha256: str, size: int) -> Jar:
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, sha256, int(size))


def format_lock(lock: Lock) -> str:
    """Return the content of `jars.lock`; no addresses, so that any repository can serve it."""
    lines = ["# Written by `stateward jars --lock` from jars.toml. Do not edit.", ""]
    for name, jars in lock.items():
        lines.append(f"{name} = [")
        for jar in sorted(jars):
            lines.append(f'  {{ jar = "{jar.coordinates}", size = {jar.size}, sha256 = "{jar.sha256}" }},')
        lines += ["]", ""]
    return "\n".join(lines)


def missing(lock: Lock, folder: Path) -> list[tuple[str, Jar]]:
    """Return the (set, JAR) pairs that are not in `folder/<set>/`, or not whole there; every file is read."""
    return [
        (name, jar)
        for name, jars in lock.items()
        for jar in jars
        if not jar.is_whole(folder / name / jar.file_name)
    ]


def require_jars(settings: Settings) -> None:
    """Check quickly, by name and size, that the JARs are there.

    Raises:
        JarsMissingError: with the command that fetches them.
    """
    for name, jars in read_lock().items():
        for jar in jars:
            path = settings.jars / name / jar.file_name
            if not path.is_file() or path.stat().st_size != jar.size:
                raise JarsMissingError(
                    f"{path} is missing or not whole; run `stateward jars` (or `make setup`)"
                )


def fetch(lock: Lock, folder: Path, repository: str | None = None, report: Report = lambda jar: None) -> int:
    """Fetch what is missing into `folder/<set>/`, and remove JARs that are not pinned.

    A file appears under its name only when it is whole, so an interrupted call is continued by the next one.

    Args:
        lock: what to fetch.
        folder: parent of the sets' folders.
        repository: base address of a Maven repository to use instead of the default one.
        report: called after each JAR, from this thread.

    Returns:
        How many were fetched.

    Raises:
        JarFetchError: one could not be fetched or has another checksum; the others are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if wanted := missing(lock, folder):
        # Once, and before any thread: without the extra every JAR would fail.
        importlib.import_module("jgo")
    # Beside the target, so that moving a file there is a rename; fresh: a half-filled cache is a trap.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as cache:
        with ThreadPoolExecutor(_THREADS) as pool:
            pending = {
                pool.submit(_fetch_one, jar, folder / name, cache, repository): jar for name, jar in wanted
            }
            failures = []
            for future in as_completed(pending):
                if error := future.exception():
                    kind = "" if isinstance(error, JarFetchError) else f"{type(error).__name__}: "
                    failures.append(f"{pending[future].coordinates}: {kind}{error}")
                else:
                    report(pending[future])
        if failures:
            raise JarFetchError(
                f"{len(failures)} of {len(wanted)} JARs could not be fetched; run it again to go on:\n  "
                + "\n  ".join(failures)
            )
    _remove_strays(lock, folder)
    return len(wanted)


@retry(stop=stop_after_attempt(_ATTEMPTS), reraise=True)
def _fetch_one(jar: Jar, folder: Path, cache: str, repository: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # A cache of its own for each attempt: jgo refuses to download over the rest of a broken one.
    with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as own_cache:
        fetched = download(jar.group, jar.artifact, jar.version, Path(own_cache), repository)
        if not jar.is_whole(fetched):
            found = f"{sha256_of(fetched)} ({fetched.stat().st_size} bytes)"
            raise JarFetchError(f"expected sha256 {jar.sha256}, found {found}")
        fetched.replace(folder / jar.file_name)


def download(group: str, artifact: str, version: str, cache: Path, repository: str | None = None) -> Path:
    """Download one JAR into a Maven repository cache at `cache`, and return its path there."""
    context = maven_context(cache, repository)
    path: Path = context.project(group, artifact).at_version(version).artifact().resolve()
    return path


def maven_context(cache: Path, repository: str | None = None):  # type: ignore[no-untyped-def]
    """Return jgo's entry point, without the user's own local Maven repository."""
    from jgo.maven import MavenContext, PythonResolver

    remotes = {"configured": repository.rstrip("/")} if repository else None
    return MavenContext(
        repo_cache=cache, local_repos=[], remote_repos=remotes, resolver=PythonResolver(), timeout=60
    )


def _remove_strays(lock: Lock, folder: Path) -> None:
    """Remove JARs that are not pinned: an old version beside the new one would be on the class path too."""
    for name, jars in lock.items():
        pinned = {jar.file_name for jar in jars}
        for path in (folder / name).glob("*.jar"):
            if path.name not in pinned:
                path.unlink()
