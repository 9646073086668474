"""Releases in the storage that all hosts reach, so that any of them can start a driver again as it was.

    <data>/releases/code/<code>-<library>.zip
    <data>/releases/code/<code>-<library>.py         runs a driver of it, where one is a pod
    <data>/releases/<stream>/<code>-<library>-<yaml>.yaml

A host keeps what it has started in folders of its own (`release`) and takes from here what it does not have.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stateward.contract import storage
from stateward.control.releases.code_zip import code_files, zipped
from stateward.project.layout import Layout

_CODE, _ZIP, _ENTRY, _YAML = "code", ".zip", ".py", ".yaml"


@dataclass(frozen=True)
class StoredCode:
    """The code of a release in the storage that all hosts reach.

    Attributes:
        zip: URI of the zip with its packages.
        entry: URI of the script that runs a driver of it.
    """

    zip: str
    entry: str


def stored_code(layout: Layout, code: Path) -> StoredCode:
    """Return where the code of a release that has been stored lies.

    Args:
        layout: Where releases are stored.
        code: The folder with its packages on this host.
    """
    return _stored(layout, code.name)


def store(layout: Layout, stream: str, release: str, *, code: Path, yaml: Path, kept: int) -> None:
    """Store a release that is about to be launched, and remove the oldest of the stream's others.

    Args:
        layout: Where releases are stored.
        stream: The stream.
        release: Its id.
        code: The folder with its packages.
        yaml: The file with the stream's settings.
        kept: How many earlier releases of the stream stay.

    Raises:
        OSError: It cannot be read or written.
    """
    # The YAML first, and each time: it shows that the code is needed, and its time is that of the launch.
    storage.write_bytes(_yaml_uri(layout, stream, release), yaml.read_bytes())
    stored, entry = _code_of_release(layout, release), code / "stateward" / "driver.py"
    if not storage.exists(stored.zip):
        files = sorted(code_files(code))
        members = ((file.relative_to(code).as_posix(), file.read_bytes()) for file in files)
        storage.write_bytes(stored.zip, zipped(members))
    # An earlier version stored none.
    if entry.is_file() and not storage.exists(stored.entry):
        storage.write_bytes(stored.entry, entry.read_bytes())
    _sweep(layout, stream, kept)


def fetch(layout: Layout, stream: str, release: str, code: Path, yaml: Path) -> bool:
    """Bring a release to this host; tell whether it is stored.

    Args:
        layout: Where releases are stored.
        stream: The stream.
        release: Its id.
        code: The folder that is to have its packages; left alone if it exists.
        yaml: The file that is to have the stream's settings.

    Raises:
        OSError: It cannot be read or written, or what is stored is damaged.
    """
    settings = storage.read_bytes(_yaml_uri(layout, stream, release))
    if settings is None:
        return False
    if not code.is_dir():
        uri = _code_of_release(layout, release).zip
        packed = storage.read_bytes(uri)
        if packed is None:
            return False
        _unzip(packed, code, uri)
    storage.replace_file(yaml, settings)
    return True


def _sweep(layout: Layout, stream: str, kept: int) -> None:
    root = layout.releases_uri
    present = list(storage.sizes_below(root))
    own = [path for path in present if path.startswith(f"{stream}/") and path.endswith(_YAML)]
    gone = _oldest(root, own, kept + 1)
    needed = {_code_of(path) for path in present if path.endswith(_YAML) and path not in gone}
    packed = [path for path in present if path.startswith(f"{_CODE}/") and path.endswith(_ZIP)]
    # The newest may be one that another stream is about to store.
    unneeded = [path for path in _oldest(root, packed, kept) if Path(path).name not in needed]
    entries = [f"{path.removesuffix(_ZIP)}{_ENTRY}" for path in unneeded]
    for path in (*gone, *unneeded, *(path for path in entries if path in present)):
        storage.delete(f"{root}/{path}")


def _oldest(root: str, paths: Iterable[str], but: int) -> list[str]:
    """All paths but the newest."""
    paths = list(paths)
    if len(paths) <= but:
        return []
    return sorted(paths, key=lambda path: _modified(f"{root}/{path}"))[:-but]


def _modified(uri: str) -> datetime:
    # One that another host has removed meanwhile is the oldest.
    return storage.modified_at(uri) or datetime.min.replace(tzinfo=UTC)


def _code_of(yaml_path: str) -> str:
    """The name of the zip with a release's code."""
    return f"{Path(yaml_path).name.removesuffix(_YAML).rpartition('-')[0]}{_ZIP}"


def _code_of_release(layout: Layout, release: str) -> StoredCode:
    return _stored(layout, release.rpartition("-")[0])


def _stored(layout: Layout, name: str) -> StoredCode:
    uri = f"{layout.releases_uri}/{_CODE}/{name}"
    return StoredCode(f"{uri}{_ZIP}", f"{uri}{_ENTRY}")


def _yaml_uri(layout: Layout, stream: str, release: str) -> str:
    return f"{layout.releases_uri}/{stream}/{release}{_YAML}"


def _unzip(packed: bytes, code: Path, uri: str) -> None:
    code.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=code.parent) as temporary:
        folder = Path(temporary) / "code"
        try:
            # Each member is checked against its checksum, and none gets outside of the folder.
            zipfile.ZipFile(io.BytesIO(packed)).extractall(folder)
        except (zipfile.BadZipFile, zlib.error) as error:
            raise OSError(f"{uri}: expected the code of a release, found a damaged file ({error})") from error
        try:
            folder.rename(code)
        except OSError:
            # Another launch has brought the same code meanwhile.
            if not code.is_dir():
                raise
