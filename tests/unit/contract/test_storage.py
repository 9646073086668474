"""JSON documents at a URI: whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward.contract.storage import CorruptDocumentError, read_json, write_json, write_passing
from tests.support.power_loss import Disk


@pytest.fixture(params=["file", "memory"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        f"file://{tmp_path}/a b/doc.json" if request.param == "file" else f"memory://{tmp_path.name}/doc.json"
    )


def test_what_is_written_is_read(uri: str) -> None:
    assert read_json(uri) is None
    write_json(uri, {"a": 1})
    write_json(uri, {"ü": [None]})
    assert read_json(uri) == {"ü": [None]}


def test_a_failed_write_leaves_the_old_document_and_nothing_else(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/doc.json"
    write_json(uri, {"a": 1})
    with pytest.raises(TypeError):
        write_json(uri, {"a": object()})
    assert read_json(uri) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["doc.json"]


@pytest.mark.parametrize("content", [b"", b'{"a":', b"[1]", b"\xff"])
def test_what_is_no_json_object_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "doc.json").write_bytes(content)
    with pytest.raises(CorruptDocumentError, match=r"doc\.json"):
        read_json(f"file://{tmp_path}/doc.json")


def test_a_document_in_a_new_folder_survives_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    with monkeypatch.context() as patch:
        disk.record(patch)
        write_json(f"file://{tmp_path}/a/b/doc.json", {"a": 1})
        write_passing(f"file://{tmp_path}/a/b/status.json", "{}")
    disk.look("the power is lost")
    assert disk.last[0].files == {Path("a/b/doc.json"): b'{"a":1}'}
