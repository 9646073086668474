"""Data Docs on storage without folders: validations of several hosts publish into one site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateward.contract import storage
from stateward.quality.validation.context_folder import remove_less_masked
from stateward.quality.validation.report_folders import CopiedFolders, ReportFolders, report_folders
from tests.support.pages.built_docs import build_docs


@pytest.fixture
def docs_uri(tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}/quality/docs"


class Host:
    """A validation on a host of its own, which writes as Great Expectations does."""

    def __init__(self, folder: Path, docs_uri: str) -> None:
        folder.mkdir()
        self.folders = CopiedFolders(folder, docs_uri)
        self.folders.fetch()

    def write(self, run: str, suite: str = "sessions") -> None:
        context, docs = self.folders.context_dir, self.folders.docs_dir
        put(context / "masks", "masked")
        put(context / "great_expectations.yml", f"of this host: {context}")
        put(context / "validations" / suite / run / "t" / "b.json", json.dumps(run))
        put(docs / "validations" / suite / run / "t" / "b.html", f"<p>{run}</p>")
        put(docs / "static" / "styles.css", "p {}")
        self.build_index()

    def build_index(self) -> None:
        """List the results that have a page, as Great Expectations does."""
        context, docs = self.folders.context_dir, self.folders.docs_dir
        shown = [
            json.loads(result.read_text())
            for result in sorted((context / "validations").rglob("*.json"))
            if (docs / result.relative_to(context)).with_suffix(".html").exists()
        ]
        put(docs / "index.html", json.dumps(shown))

    def remove(self, run: str, suite: str = "sessions") -> None:
        (self.folders.context_dir / "validations" / suite / run / "t" / "b.json").unlink()
        (self.folders.docs_dir / "validations" / suite / run / "t" / "b.html").unlink()

    def publish(self) -> None:
        self.folders.publish(self.build_index)


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def index(docs_uri: str) -> list[str]:
    return sorted(json.loads(storage.read_text(f"{docs_uri}/index.html") or "[]"))


def test_the_index_has_the_validations_of_earlier_hosts(tmp_path: Path, docs_uri: str) -> None:
    for number in (1, 2, 3):
        host = Host(tmp_path / f"host{number}", docs_uri)
        host.write(f"run{number}")
        host.publish()
    assert index(docs_uri) == ["run1", "run2", "run3"]
    for number in (1, 2, 3):
        assert (
            storage.read_text(f"{docs_uri}/validations/sessions/run{number}/t/b.html")
            == f"<p>run{number}</p>"
        )


def test_two_that_began_together_are_both_in_the_index(tmp_path: Path, docs_uri: str) -> None:
    one, two = Host(tmp_path / "one", docs_uri), Host(tmp_path / "two", docs_uri)
    one.write("of one")
    two.write("of two")
    one.publish()
    two.publish()
    assert index(docs_uri) == ["of one", "of two"]


def test_an_index_that_another_host_overtook_is_built_again(
    tmp_path: Path, docs_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = Host(tmp_path / "slow", docs_uri), Host(tmp_path / "fast", docs_uri)
    slow.write("slow")
    fast.write("fast")
    write, waiting = storage.write_bytes, [fast]

    def overtaken(uri: str, content: bytes, *, durable: bool = True) -> None:
        if uri.endswith("index.html") and waiting:
            waiting.pop().publish()
        write(uri, content, durable=durable)

    monkeypatch.setattr(storage, "write_bytes", overtaken)
    slow.publish()
    assert index(docs_uri) == ["fast", "slow"]


def test_what_a_validation_removes_is_removed_for_all(tmp_path: Path, docs_uri: str) -> None:
    first, second = Host(tmp_path / "first", docs_uri), Host(tmp_path / "second", docs_uri)
    first.write("old")
    first.publish()
    second.write("new")
    second.publish()
    third = Host(tmp_path / "third", docs_uri)
    third.remove("old")
    third.write("newest")
    third.publish()
    assert index(docs_uri) == ["new", "newest"]
    assert not any("old" in path for path in storage.sizes_below(docs_uri))


def test_what_belongs_to_one_host_is_not_published(tmp_path: Path, docs_uri: str) -> None:
    host = Host(tmp_path / "host", docs_uri)
    host.write("run")
    host.publish()
    root = docs_uri.rpartition("/")[0]
    assert set(storage.sizes_below(root)) == {
        "docs/index.html",
        "docs/validations/sessions/run/t/b.html",
        "gx/masks",
        "gx/validations/sessions/run/t/b.json",
    }


def test_a_half_written_file_of_another_host_is_not_taken(tmp_path: Path, docs_uri: str) -> None:
    storage.write_text(f"{docs_uri.rpartition('/')[0]}/gx/validations/s/r/t/b.json.0f.tmp", "{")
    host = Host(tmp_path / "host", docs_uri)
    assert not list(host.folders.context_dir.rglob("*.tmp"))


def test_the_first_validation_of_all_marks_how_it_masks(docs_uri: str) -> None:
    with report_folders(docs_uri) as folders:
        remove_less_masked(folders.context_dir, folders.docs_dir)
        put(folders.docs_dir / "index.html", "nothing")
        folders.publish(lambda: None)
    assert storage.read_text(f"{docs_uri.rpartition('/')[0]}/gx/masks")


def test_great_expectations_builds_one_site_from_two_temporary_folders(docs_uri: str) -> None:
    reports = []
    for table in ("sessions", "orders"):
        with report_folders(docs_uri) as folders:
            reports.append(build_docs(folders.docs_dir, folders.context_dir, table))
            folders.publish(lambda: None)
        assert not folders.docs_dir.exists()
    shown = storage.read_text(f"{docs_uri}/index.html") or ""
    for report, table in zip(reports, ("sessions", "orders"), strict=True):
        assert report in shown and f"expectations/{table}.html" in shown
        assert table in (storage.read_text(f"{docs_uri}/{report}") or "")


def test_a_local_folder_is_written_in_place(tmp_path: Path) -> None:
    with report_folders(f"file://{tmp_path}/quality/docs") as folders:
        assert type(folders) is ReportFolders
        assert folders.docs_dir == tmp_path / "quality" / "docs"
        assert folders.context_dir == tmp_path / "quality" / "gx"
        assert (folders.context_dir / ".lock").exists()
