"""Data Docs show what is in the data, whatever it is, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import import_module
from types import ModuleType

import pandas as pd
import pytest

HOSTILE = [
    '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
    "<script>alert(1)</script>",
    "</script></pre></td></table><h1>All is well</h1>",
    "\"><img src=x onerror='alert(1)'>",
    '<a href="javascript:alert(1)">open</a> & more',
    "${html_success_icon} $formatted_json {{ 7 * 7 }}",
]
HARMLESS = ["aaa", "bbb", "ccc", "ddd", "eee", "fff"]


class _Read(HTMLParser):
    """The elements of a page with the names of their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def great_expectations() -> ModuleType:
    """The library without its statistics for its makers, as the validation job imports it."""
    import_module("stateward.quality.validation.expectations")
    return import_module("great_expectations")


def _page(gx: ModuleType, values: list[str]) -> _Read:
    """The page of a validation in which these values break expectations, by pandas in place of Spark."""
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer

    from stateward.quality.reports.page_view import OfflinePageView

    frame = pd.DataFrame({"kind": values, "other": list(reversed(values)), values[1]: range(len(values))})
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("frames").add_dataframe_asset(values[0])
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    expect = gx.expectations
    note = {"notes": [f"what it means: {values[2]}", f"If it fails: {values[3]}"]}
    suite = gx.ExpectationSuite(
        name="suite",
        expectations=[
            expect.ExpectColumnValuesToBeInSet(column="kind", value_set=["known", values[4]], **note),
            expect.ExpectColumnValuesToBeUnique(column="kind"),
            expect.ExpectColumnValuesToMatchRegex(column="kind", regex=f"x{values[1]}"),
            expect.ExpectColumnDistinctValuesToEqualSet(column="kind", value_set=[values[0]]),
            expect.ExpectColumnPairValuesToBeEqual(column_A="kind", column_B="other"),
            expect.ExpectColumnToExist(column=values[5]),
            expect.ExpectColumnValuesToNotBeNull(column="kind", description=values[1]),
            # It cannot be evaluated, and the reason is shown.
            expect.ExpectColumnValuesToBeBetween(column=values[2], min_value=1),
            expect.ExpectColumnValuesToBeBetween(column=values[1], min_value=3),
        ],
    )
    document = ValidationResultsPageRenderer().render(batch.validate(suite, result_format="SUMMARY"))
    render: Callable[[object], str] = OfflinePageView().render
    return _Read(render(document))


def test_values_of_the_data_make_no_element_and_are_read_as_they_are(great_expectations: ModuleType) -> None:
    harmless = _page(great_expectations, HARMLESS)
    hostile = _page(great_expectations, HOSTILE)
    # Great Expectations sorts by what it shows.
    assert Counter(hostile.elements) == Counter(harmless.elements)
    assert {"table", "td", "li"} <= {tag for tag, *_ in hostile.elements}
    assert "script" not in {tag for tag, *_ in hostile.elements}
    for value in HOSTILE:
        assert hostile.text.count(value) > 1, value


def test_a_text_with_a_styled_parameter_a_tooltip_and_a_list_is_escaped() -> None:
    from stateward.quality.reports.page_view import OfflinePageView

    value = HOSTILE[0]
    html = OfflinePageView().render_string_template(
        {
            "template": "first $one\nthen $many",
            "params": {"one": value, "many": [value]},
            "tag": f"b {value}",
            "tooltip": {"content": value, "placement": value},
            "styling": {
                "default": {"classes": ["badge"]},
                "params": {"many": {"attributes": {"title": '">' + value}}},
            },
        }
    )
    read = _Read(str(html))
    assert [tag for tag, *_ in read.elements] == ["span", "span", "br", "span", "span"]
    assert read.text.count(value) == 3
