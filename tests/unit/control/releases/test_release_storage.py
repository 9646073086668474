"""Releases in the storage: a host that has kept nothing starts a driver again as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stateward.contract import storage
from stateward.control.launchers import driver_process, launch
from stateward.control.releases import release as release_module
from stateward.control.releases.release import KEPT_RELEASES, Release, ReleaseError, find, keep, store
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import load_spec

STREAM = "user_sessions"
NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class Hosts:
    """Hosts with folders of their own, and one storage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.data = f"memory://{folder.name}/data"

    def host(self, name: str) -> Settings:
        """A host on which the project is deployed."""
        jobs, streams = self._folder / name / "spark_jobs", self._folder / name / "streams"
        (jobs / STREAM).mkdir(parents=True)
        (jobs / STREAM / "job.py").write_text(f"print('{name}')\n")
        streams.mkdir()
        shutil.copy(CHECKOUT / "include" / "streams" / f"{STREAM}.yaml", streams)
        return Settings(home=self._folder / name / "home", data=self.data, jobs=jobs, streams=streams)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    library = tmp_path / "stateward"
    library.mkdir()
    (library / "driver.py").write_text("")
    monkeypatch.setattr(release_module, "_LIBRARY", library)
    return Hosts(tmp_path)


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage whose clock is a second further with each write."""
    write, written = storage.write_bytes, list[str]()

    def noted(uri: str, content: bytes, *, durable: bool = True) -> None:
        written.append(uri)
        write(uri, content, durable=durable)

    def modified(uri: str) -> datetime:
        return NOW + timedelta(seconds=len(written) - written[::-1].index(uri))

    monkeypatch.setattr(storage, "write_bytes", noted)
    monkeypatch.setattr(storage, "modified_at", modified)


def launched(settings: Settings, code: str | None = None) -> Release:
    if code is not None:
        (settings.jobs / STREAM / "job.py").write_text(code)
    kept = keep(STREAM, settings)
    store(STREAM, kept, settings)
    return kept


def stored(hosts: Hosts) -> set[str]:
    return set(storage.sizes_below(f"{hosts.data}/releases"))


def test_another_host_starts_again_what_it_has_never_had(hosts: Hosts) -> None:
    first, second = hosts.host("first"), hosts.host("second")
    launcher = launch.SparkLauncher(
        load_spec(STREAM, first.streams), first, lambda *_: driver_process.DriverCommand([], {})
    )
    wanted = launcher.prepare("r1", NOW, None).release
    shutil.rmtree(first.home)

    found = find(STREAM, wanted, second)
    assert found.id == wanted
    assert found.code.is_relative_to(second.home)
    assert (found.code / "spark_jobs" / STREAM / "job.py").read_text() == "print('first')\n"
    assert (found.code / "stateward" / "driver.py").is_file()
    assert load_spec(STREAM, found.streams) == load_spec(STREAM, first.streams)
    assert find(STREAM, wanted, second) == found
    assert keep(STREAM, second).id != wanted


def test_what_is_stored_for_one_host_is_not_packed_again(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = hosts.host("first")
    kept = launched(settings)
    written = []
    monkeypatch.setattr(storage, "write_bytes", lambda uri, content, **_: written.append(uri))
    store(STREAM, kept, settings)
    assert written == [f"{hosts.data}/releases/{STREAM}/{kept.id}.yaml"]


def test_a_release_whose_code_is_not_stored_yet_is_none(hosts: Hosts) -> None:
    kept = launched(hosts.host("first"))
    other = hosts.host("other")
    storage.delete(f"{hosts.data}/releases/code/{kept.code.name}.zip")
    with pytest.raises(ReleaseError, match=f"or in {hosts.data}/releases, found it incomplete"):
        find(STREAM, kept.id, other)
    assert not (other.home / "releases" / STREAM).exists()


@pytest.mark.parametrize(
    "damaged", [lambda whole: whole[:-30], lambda whole: whole[:61] + bytes(9) + whole[70:]]
)
def test_damaged_code_is_named_and_leaves_nothing(hosts: Hosts, damaged: Callable[[bytes], bytes]) -> None:
    kept = launched(hosts.host("first"))
    other = hosts.host("other")
    uri = f"{hosts.data}/releases/code/{kept.code.name}.zip"
    whole = storage.read_bytes(uri) or b""
    storage.write_bytes(uri, damaged(whole))
    with pytest.raises(
        OSError, match=f"{kept.code.name}.zip: expected the code of a release, found a damaged"
    ):
        find(STREAM, kept.id, other)
    assert list((other.home / "releases" / "code").iterdir()) == []
    storage.write_bytes(uri, whole)
    assert find(STREAM, kept.id, other).id == kept.id


@pytest.mark.usefixtures("in_order")
def test_the_oldest_of_a_stream_go_with_code_that_nothing_needs(hosts: Hosts) -> None:
    settings = hosts.host("first")
    needed = launched(settings, "print('needed by another')\n")
    storage.write_text(f"{hosts.data}/releases/other/{needed.id}.yaml", "stream: other")
    several = [launched(settings, f"print({number})\n") for number in range(KEPT_RELEASES + 4)]
    kept = several[-(KEPT_RELEASES + 1) :]
    found = stored(hosts)
    assert {path for path in found if path.startswith(STREAM)} == {f"{STREAM}/{one.id}.yaml" for one in kept}
    assert {path for path in found if path.startswith("code/")} == {
        f"code/{one.code.name}{suffix}" for one in (needed, *kept) for suffix in (".zip", ".py")
    }
    assert f"other/{needed.id}.yaml" in found


@pytest.mark.usefixtures("in_order")
def test_what_is_launched_again_is_the_newest(hosts: Hosts) -> None:
    settings = hosts.host("first")
    rolled_back = launched(settings, "print('good')\n")
    for number in range(2 * KEPT_RELEASES):
        launched(settings, f"print({number})\n")
        store(STREAM, find(STREAM, rolled_back.id, settings), settings)
    assert f"{STREAM}/{rolled_back.id}.yaml" in stored(hosts)
    shutil.rmtree(Layout.of(settings).releases_dir)
    assert find(STREAM, rolled_back.id, settings).id == rolled_back.id
