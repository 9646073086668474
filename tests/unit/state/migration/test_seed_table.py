"""Tables for a seed must be below configured folders, after links are resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.state.errors import StateError
from stateward.state.migration.seed_table import is_below, read_table, resolved


def never() -> Any:
    """Stand in for a Spark that must not be used."""
    raise AssertionError("Spark was asked for a table that is refused")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a table, a link out of it and a link to a table inside."""
    (tmp_path / "secret.csv").write_text("password\nswordfish\n")
    (tmp_path / "data-of-others").mkdir()
    folder = tmp_path / "data"
    (folder / "table").mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    (folder / "inside").symlink_to(folder / "table")
    return folder


def test_a_table_below_a_root_is_read_from_its_resolved_path(data: Path) -> None:
    roots = [f"file://{data}", "s3a://bucket/seeds"]
    for uri in (
        f"file://{data}/table",
        f"file:{data}/inside",
        f"{data}/x/../table",
        f"FILE://{data}//table/",
    ):
        assert resolved(uri) == f"file://{data}/table"
        assert is_below(resolved(uri) or "", roots)
    assert is_below(resolved("s3a://bucket/seeds/2026/users/") or "", roots)


@pytest.mark.parametrize(
    "table",
    [
        "file:///etc/passwd",
        "/etc/passwd",
        "etc/passwd",
        "file://localhost/etc/passwd",
        "file://{data}/../secret.csv",
        "file://{data}/out/secret.csv",
        "file://{data}-of-others/table",
        "file://{data}",
        "file://{data}/t*",
        "file://{data}/{{table,out/secret.csv}}",
        "http://169.254.169.254/latest/meta-data",
        "s3a://bucket/seeds/../secrets/users",
        "s3a://bucket/seeds-of-others/users",
        "s3a://other/seeds/users",
        "s3a:///bucket/seeds/users",
        "s3a://bucket//seeds/users",
    ],
)
def test_any_other_table_is_refused_before_anything_is_read(data: Path, table: str) -> None:
    roots = [f"file://{data}", "s3a://bucket/seeds"]
    with pytest.raises(
        StateError, match=r"expected the URI of a table below .* STATEWARD_SEED_ROOTS"
    ) as error:
        read_table(never, "users", table.format(data=data), "csv", roots)
    assert "swordfish" not in str(error.value) and "password" not in str(error.value)


def test_without_roots_nothing_may_be_read() -> None:
    with pytest.raises(StateError, match="below no folder"):
        read_table(never, "users", "file:///any", "delta", [])


@given(st.lists(st.sampled_from(["..", ".", "", "a", "out", "table", "secret.csv"]), max_size=8))
def test_no_path_leads_out_of_the_root(parts: list[str]) -> None:
    root = Path("/srv/data")
    uri = resolved("/".join([f"file://{root}", *parts]))
    real = Path("/".join([str(root), *parts])).resolve()
    assert is_below(uri or "", [f"file://{root}"]) == (root in real.parents)
