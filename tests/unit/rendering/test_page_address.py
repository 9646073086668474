"""Addresses of pages: a link leads to the same page by every way of writing it, below any prefix."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.rendering import page_address
from stateward.rendering.page_address import on_server, public, relative

BASES = ["http://localhost:18080", "https://data.example.com/airflow", "https://a.example/of/many/parts/"]
NAMES = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12).filter(
    # Not an id in any Airflow: a browser takes them for folders, however they are written.
    lambda name: name not in {".", ".."}
)
WORDS = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
PAGES = st.one_of(
    st.sampled_from([page_address.STREAMS_PAGE, page_address.QUALITY_PAGE, page_address.DATA_DOCS_PAGE]),
    st.builds(page_address.dag, NAMES),
    st.builds(page_address.dag_run, NAMES, NAMES),
    st.builds(page_address.stream, NAMES),
    st.builds(page_address.table, NAMES, NAMES),
    st.builds(page_address.report, st.lists(WORDS, min_size=1, max_size=4).map("/".join)),
    st.builds(page_address.operation, WORDS, WORDS),
    st.builds(page_address.spark_ui, WORDS),
)


@given(base=st.sampled_from(BASES), page=PAGES, here=PAGES)
def test_a_relative_link_leads_to_the_page_below_any_prefix(base: str, page: str, here: str) -> None:
    link = relative(page, here)
    assert not link.startswith("/")
    assert urljoin(public(base, here), link) == public(base, page)


@given(base=st.sampled_from(BASES), page=PAGES)
def test_the_path_on_the_server_is_that_of_the_public_url(base: str, page: str) -> None:
    assert urljoin(base, on_server(base, page)) == public(base, page)


@given(dag_id=NAMES, run_id=NAMES)
def test_a_name_stays_one_part_of_the_path(dag_id: str, run_id: str) -> None:
    parts = urlsplit(public(BASES[1], page_address.dag_run(dag_id, run_id))).path.split("/")
    assert [unquote(one) for one in parts] == ["", "airflow", "dags", dag_id, "runs", run_id]


def test_a_table_has_a_page_for_each_time_shown() -> None:
    asked = urlsplit(page_address.table("s", "t", days=30))
    assert (asked.path, parse_qs(asked.query)) == (
        "/stateward/quality/table.html",
        {"stream": ["s"], "table": ["t"], "days": ["30"]},
    )


@pytest.mark.parametrize(
    ("page", "link"),
    [
        (page_address.dag("quality_s"), "../../dags/quality_s"),
        (page_address.table("s", "t"), "table.html?stream=s&table=t"),
        (page_address.spark_ui("s"), "../spark/s/"),
    ],
)
def test_a_link_of_the_quality_page(page: str, link: str) -> None:
    assert relative(page, page_address.QUALITY_PAGE) == link


def test_no_other_module_makes_an_address() -> None:
    library = Path(page_address.__file__).parents[1]
    made = re.compile(r"""["'}](?:/stateward/|/dags/|(?:\.\./)+[a-z{])|(?:href|src|action)="/""")
    found = {
        str(file.relative_to(library)): match.group()
        for kind in ("py", "j2", "js")
        for file in library.rglob(f"*.{kind}")
        if file.name != "page_address.py" and (match := made.search(file.read_text()))
    }
    assert found == {}
