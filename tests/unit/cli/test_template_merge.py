"""Merges of a template into a file by git: nothing that one of them added is lost."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.cli.project.template_merge import Kind, change_of, has_markers, merge_by_git

MERGE = partial(merge_by_git, before="template of 1", after="template of 2")
FILE = Path("Dockerfile")
LINES = st.lists(st.sampled_from("abcdefgh"), max_size=8)


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@settings(max_examples=80, deadline=None)
@given(base=LINES, mine=LINES, new=LINES)
def test_no_line_that_one_of_them_added_is_lost(base: list[str], mine: list[str], new: list[str]) -> None:
    change = change_of(FILE, text(base), text(mine), text(new), MERGE)
    found = text(mine) if change is None or change.content is None else change.content
    lines = found.decode().splitlines()
    assert set(mine) - set(base) <= set(lines)
    assert set(new) - set(base) <= set(lines)
    assert has_markers(found) == (change is not None and change.kind is Kind.CONFLICT)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), size=st.integers(4, 12))
def test_edits_of_lines_that_do_not_touch_are_both_there_without_a_conflict(
    data: st.DataObject, size: int
) -> None:
    base = [str(number) for number in range(size)]
    at = data.draw(st.integers(0, size - 3))
    other = data.draw(st.integers(at + 2, size - 1))
    at, other = data.draw(st.sampled_from([(at, other), (other, at)]))
    mine, new, both = list(base), list(base), list(base)
    mine[at] = both[at] = "mine"
    new[other] = both[other] = "new"
    change = change_of(FILE, text(base), text(mine), text(new), MERGE)
    assert change is not None and (change.kind, change.content) == (Kind.MERGED, text(both))


@settings(max_examples=40, deadline=None)
@given(base=LINES, mine=LINES, new=LINES)
def test_after_an_update_there_is_none_to_make(base: list[str], mine: list[str], new: list[str]) -> None:
    change = change_of(FILE, text(base), text(mine), text(new), MERGE)
    now = text(mine) if change is None else change.content
    assert change_of(FILE, text(new), now, text(new), MERGE) is None
