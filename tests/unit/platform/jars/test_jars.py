"""JARs: the lock, and fetching from a real repository on a local port."""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stateward.cli import jars
from stateward.platform.jars.fetch import Jar, JarFetchError, fetch, format_lock, missing, read_lock
from stateward.platform.jars.resolution import WishedSet, artifact_of, read_wishes, select

CONTENTS = {"one": b"first jar" * 1000, "two": b"second jar" * 1000}


class Repository:
    """A Maven repository that says what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        for artifact, content in CONTENTS.items():
            path = self.path(artifact)
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
            path.with_suffix(".jar.sha1").write_text(hashlib.sha1(content).hexdigest())
        handler = partial(_Handler, self.asked, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def path(self, artifact: str) -> Path:
        return self.folder / "org" / "example" / artifact / "1.0" / f"{artifact}-1.0.jar"

    def jars_asked(self) -> list[str]:
        return [Path(path).name for path in self.asked if path.endswith(".jar")]


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, asked: list[str], *arguments: Any, **named: Any) -> None:
        self._asked = asked
        super().__init__(*arguments, **named)

    def do_GET(self) -> None:
        self._asked.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = Repository(tmp_path / "repository")
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def jar(artifact: str) -> Jar:
    content = CONTENTS[artifact]
    return Jar("org.example", artifact, "1.0", hashlib.sha256(content).hexdigest(), len(content))


LOCK = {"spark": [jar("one"), jar("two")]}


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_is_missing_is_fetched_and_verified_once(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    assert fetch(LOCK, folder, repository.address) == 2
    assert names(folder) == ["spark/one-1.0.jar", "spark/two-1.0.jar"], "and nothing is kept twice"
    repository.asked.clear()
    assert fetch(LOCK, folder, repository.address) == 0
    assert repository.asked == []


def test_a_partial_file_is_never_taken_for_whole_and_the_rest_is_kept(
    repository: Repository, tmp_path: Path
) -> None:
    folder = tmp_path / "jars"
    fetch(LOCK, folder, repository.address)
    (folder / "spark" / "one-1.0.jar").write_bytes(CONTENTS["one"][:100])
    repository.asked.clear()
    assert fetch(LOCK, folder, repository.address) == 1
    assert missing(LOCK, folder) == []
    assert repository.jars_asked() == ["one-1.0.jar"]


def test_a_jar_with_another_checksum_is_refused_by_name_and_the_others_are_kept(
    repository: Repository, tmp_path: Path
) -> None:
    other = b"not what was pinned"
    repository.path("two").write_bytes(other)
    repository.path("two").with_suffix(".jar.sha1").write_text(hashlib.sha1(other).hexdigest())
    with pytest.raises(JarFetchError, match=r"org\.example:two:1\.0: expected sha256"):
        fetch(LOCK, tmp_path / "jars", repository.address)
    assert repository.jars_asked().count("two-1.0.jar") == 3
    assert names(tmp_path / "jars") == ["spark/one-1.0.jar"]


def test_a_jar_of_an_earlier_lock_is_removed(repository: Repository, tmp_path: Path) -> None:
    old = tmp_path / "jars" / "spark" / "one-0.9.jar"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"old")
    fetch(LOCK, tmp_path / "jars", repository.address)
    assert not old.exists()


def test_another_set_is_fetched_alone(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "other.lock"
    lock.write_text(format_lock({"extra": LOCK["spark"]}))
    monkeypatch.setattr(jars, "S3_LOCK_FILE", lock)
    monkeypatch.setenv("STATEWARD_MAVEN_REPOSITORY", repository.address)
    jars.run(lock=False, into=tmp_path / "jars", other="extra")
    assert names(tmp_path / "jars") == ["extra/one-1.0.jar", "extra/two-1.0.jar"]
    with pytest.raises(ValueError, match=r"--set: expected one of \['extra'\], found 'spark'"):
        jars.run(lock=False, into=tmp_path / "jars", other="spark")


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "jars.lock"
    path.write_text(format_lock(LOCK))
    assert read_lock(path) == LOCK


def test_the_shipped_lock_holds_what_the_shipped_wishes_ask_for_and_no_address() -> None:
    lock, wishes = read_lock(), read_wishes()
    assert set(lock) == set(wishes)
    for name, wished in wishes.items():
        pinned = {one.coordinates for one in lock[name]}
        assert {*wished.resolve, *wished.add} <= pinned
        assert not {f"{one.group}:{one.artifact}" for one in lock[name]} & wished.exclude
    assert "://" not in format_lock(lock)


def test_no_jar_is_shipped_twice() -> None:
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    ours = [jar.file_name for jars in read_lock().values() for jar in jars]
    of_spark = [path.name for path in (Path(found.origin).parent / "jars").glob("*.jar")]
    assert of_spark
    assert [name for name, count in Counter(ours + of_spark).items() if count > 1] == []


@pytest.mark.parametrize(
    ("file", "artifact"),
    [
        ("zstd-jni-1.5.7-3.jar", "zstd-jni"),
        ("delta-spark_4.2_2.13-4.4.0.jar", "delta-spark_4.2_2.13"),
        ("JTransforms-3.1.jar", "JTransforms"),
    ],
)
def test_the_artifact_is_told_from_its_version(file: str, artifact: str) -> None:
    assert artifact_of(file) == artifact


def test_selection_drops_what_is_shipped_or_excluded_and_lets_pins_win() -> None:
    wishes = WishedSet(add=("g:pinned:2",), exclude=frozenset({"g:unwanted"}))
    resolved = ["g:root:1", "g:pinned:1", "g:unwanted:1", "g:shipped:1"]
    assert select(resolved, wishes, provided={"shipped"}) == ["g:pinned:2", "g:root:1"]
