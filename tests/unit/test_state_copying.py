"""Copies of folders: whole, with checksums, sharing nothing with the original."""

from __future__ import annotations

import hashlib
from pathlib import Path

import fsspec
import pytest

from spark_jobs.state import copying

CONTENTS = {
    "metadata": b'{"id": "x"}',
    "offsets/0": b"v1\n",
    "offsets/.0.crc": b"crc",
    "state/0/0/1.zip": bytes(range(256)) * 9000,
    "state/0/0/empty": b"",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder with 100 % state"
    for path, content in CONTENTS.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_a_copy_has_every_file_and_shares_none(source: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, str]] = []
    target = tmp_path / "copy"

    copied = copying.copy_tree(f"file://{source}", f"file://{target}/", lambda *step: steps.append(step))

    assert {file.path: (file.size, file.sha256) for file in copied} == {
        path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in CONTENTS.items()
    }
    for path, content in CONTENTS.items():
        assert (target / path).read_bytes() == content
        assert (target / path).stat().st_ino != (source / path).stat().st_ino
        assert (target / path).stat().st_nlink == 1
    size = sum(map(len, CONTENTS.values()))
    assert steps[-1] == ("copy", f"5 of 5 files, {size} bytes")
    assert copying.checksums_of(f"file://{source}") == copied


def test_what_is_wrong_with_a_copy_is_said_file_by_file(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    uri = f"file://{target}"
    copied = copying.copy_tree(f"file://{source}", uri, lambda *step: None)
    assert copying.deviations(uri, copied) == []

    (target / "metadata").unlink()
    (target / "offsets/0").write_bytes(b"v2\n")
    (target / "state/0/0/1.zip").write_bytes(b"short")
    (target / "stray").write_bytes(b"")

    missing, stray, other, short = copying.deviations(uri, copied)
    assert (missing, stray) == ("metadata is missing", "stray was not expected")
    assert other.startswith("offsets/0 has another content (SHA-256 ")
    assert short == "state/0/0/1.zip has 5 bytes, expected 2304000"


def test_a_folder_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(copying.CopyError, match=r"expected files in file://.*nothing, found none"):
        copying.copy_tree(f"file://{tmp_path}/nothing", f"file://{tmp_path}/copy", lambda *step: None)
    assert not (tmp_path / "copy").exists()


def test_a_file_that_goes_away_meanwhile_is_an_error_in_words(source: Path, tmp_path: Path) -> None:
    (source / "offsets/0").unlink()
    (source / "offsets/0").symlink_to(source / "gone")
    with pytest.raises(copying.CopyError, match="is the stream running"):
        copying.copy_tree(f"file://{source}", f"file://{tmp_path}/copy", lambda *step: None)


def test_a_folder_goes_with_all_that_is_in_it(source: Path) -> None:
    uri = f"file://{source}"
    assert not copying.is_empty(uri)
    assert copying.size_of(uri) == sum(map(len, CONTENTS.values()))
    copying.remove(uri)
    copying.remove(uri)
    assert copying.is_empty(uri)
    assert not source.exists()


def test_it_works_on_storage_that_is_not_a_disk(source: Path) -> None:
    copied = copying.copy_tree(f"file://{source}", "memory://state-copying/copy", lambda *step: None)
    assert copying.deviations("memory://state-copying/copy", copied) == []
    fsspec.filesystem("memory").rm("/state-copying", recursive=True)
