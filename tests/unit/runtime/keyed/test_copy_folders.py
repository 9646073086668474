"""Folders of local copies of states; only copies of the same stream are removed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateward.runtime.cause import cause_of
from stateward.runtime.keyed import copy_folders
from stateward.runtime.keyed.copy_folders import MARKER, CopyFolderError, copy_folder
from stateward.runtime.keyed.state_cache import StateCache
from stateward.testing.bucket_bench import close_copies

SESSIONS = "file:///data/checkpoints/user_sessions"
COUNTS = "file:///data/checkpoints/action_counts"
NOBODY = 65_534


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_copies()


def use(root: Path, checkpoint_uri: str) -> Path:
    """Use a copy as a task does, and leave an entry in it."""
    cache = StateCache(str(root), checkpoint_uri, 0)
    cache.bucket(1).chunks.stamp = checkpoint_uri
    cache.commit()
    return copy_folder(str(root), checkpoint_uri)


def stamp(root: Path, checkpoint_uri: str) -> str:
    close_copies()
    cache = StateCache(str(root), checkpoint_uri, 0)
    found = cache.bucket(1).chunks.stamp
    cache.abort()
    return found


def old_copy(root: Path, checkpoint_uri: str, boot: str = "01234567") -> Path:
    """A copy of a release with another layout."""
    digest = copy_folder(str(root), checkpoint_uri).name.split("-", 1)[0]
    folder = root / f"{digest}-{boot}-v5"
    (folder / "p0").mkdir(parents=True)
    (folder / "p0" / "data.mdb").write_bytes(b"\0" * 4096)
    (folder / MARKER).write_text(json.dumps({"checkpoint": checkpoint_uri}))
    return folder


def test_what_else_lies_in_the_folder_stays(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "one.jpg").write_bytes(b"jpg")
    like_a_copy = tmp_path / "0123456789ab-01234567-v2"
    like_a_copy.mkdir()
    (like_a_copy / "thesis.tex").write_text("all of it")
    (tmp_path / "link").symlink_to(photos)

    use(tmp_path, f"{SESSIONS}/g0001")

    assert (photos / "one.jpg").read_bytes() == b"jpg"
    assert (like_a_copy / "thesis.tex").read_text() == "all of it"
    assert (tmp_path / "link").is_symlink()


def test_two_streams_share_a_folder(tmp_path: Path) -> None:
    use(tmp_path, f"{SESSIONS}/g0001")
    use(tmp_path, f"{COUNTS}/g0001")
    elsewhere = "file:///elsewhere/checkpoints/user_sessions/g0001"
    use(tmp_path, elsewhere)

    for uri in (f"{SESSIONS}/g0001", f"{COUNTS}/g0001", elsewhere):
        assert stamp(tmp_path, uri) == uri


def test_copies_of_earlier_generations_and_boots_of_the_stream_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_folders, "_boot", lambda: "00000000")
    before_boot = use(tmp_path, f"{SESSIONS}/g0002")
    in_root, neighbour = use(tmp_path, SESSIONS), use(tmp_path, f"{COUNTS}/g0001")
    close_copies()
    monkeypatch.undo()
    old = old_copy(tmp_path, f"{SESSIONS}/g0001")
    old_of_neighbour = old_copy(tmp_path, f"{COUNTS}/g0002")

    mine = use(tmp_path, f"{SESSIONS}/g0002")

    assert sorted(tmp_path.iterdir()) == sorted([mine, neighbour, old_of_neighbour])
    assert not any(folder.exists() for folder in (before_boot, in_root, old))


def test_a_copy_that_another_worker_removes_at_this_moment_is_left_to_it(tmp_path: Path) -> None:
    half_removed = old_copy(tmp_path, f"{SESSIONS}/g0001")
    (half_removed / MARKER).unlink()

    mine = use(tmp_path, f"{SESSIONS}/g0001")

    assert sorted(tmp_path.iterdir()) == sorted([mine, half_removed])


def test_a_copy_without_a_mark_is_used_and_marked(tmp_path: Path) -> None:
    folder = use(tmp_path, f"{SESSIONS}/g0001")
    close_copies()
    (folder / MARKER).unlink()

    assert stamp(tmp_path, f"{SESSIONS}/g0001") == f"{SESSIONS}/g0001"
    assert json.loads((folder / MARKER).read_text())["checkpoint"] == f"{SESSIONS}/g0001"


def test_what_is_made_under_a_shared_folder_is_private(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)

    folder = use(shared / "stateward-state" / "user_sessions", f"{SESSIONS}/g0001")

    for made in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700, made


def test_a_folder_of_the_release_before_is_made_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    root = tmp_path / "stateward-state"
    root.mkdir()
    root.chmod(0o775)
    folder = copy_folder(str(root), f"{SESSIONS}/g0001")
    folder.mkdir()
    folder.chmod(0o755)

    use(root, f"{SESSIONS}/g0001")

    assert stat.S_IMODE(root.stat().st_mode) == stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a folder")
@pytest.mark.parametrize("place", ["root", "above", "copy", "link"])
def test_a_folder_that_somebody_else_has_put_there_is_refused(tmp_path: Path, place: str) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    root = shared / "stateward-state" / "user_sessions"
    copy = copy_folder(str(root), f"{SESSIONS}/g0001")
    trap = {"root": root, "above": root.parent, "copy": copy, "link": root.parent}[place]
    trap.parent.mkdir(parents=True, exist_ok=True)
    if place == "link":
        (tmp_path / "precious").mkdir()
        trap.symlink_to(tmp_path / "precious")
    else:
        trap.mkdir()
    os.chown(trap, NOBODY, NOBODY, follow_symlinks=False)

    with pytest.raises(CopyFolderError, match=f"{trap}: expected a folder of user 0.*user 65534") as why:
        use(root, f"{SESSIONS}/g0001")

    assert "state.cache" in str(why.value)
    assert (cause_of(why.value).kind, cause_of(why.value).lasting) == ("configuration", True)
    assert not list((tmp_path / "precious").glob("*")) if place == "link" else True
