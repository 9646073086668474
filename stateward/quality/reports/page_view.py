"""How Data Docs look: Great Expectations' pages without scripts and without other hosts.

Great Expectations writes values of the data into its pages unescaped, so that a value can be HTML. Here the
templates escape what they show, and the few functions that make HTML return `Markup`.
"""

from __future__ import annotations

import copy
import html
import re
from typing import TYPE_CHECKING, Any

from great_expectations.render.view.view import DefaultJinjaIndexPageView, DefaultJinjaPageView
from jinja2 import ChoiceLoader, pass_context
from markupsafe import Markup, escape

from stateward.rendering.environment import templates_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_TAG = re.compile(r"[a-z][a-z0-9]*")
# The one element that Great Expectations writes into its texts.
_LINE_BREAK = re.compile(r"&lt;br\s*/?&gt;|\n")


class OfflinePageView(DefaultJinjaPageView):
    """Renders the page of one validation or one suite."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Great Expectations searches a custom folder last, which can add templates but not replace them.
        assert self.env.loader is not None
        self.env.loader = ChoiceLoader([templates_of(__package__), self.env.loader])
        self.env.autoescape = True

    @pass_context
    def render_content_block(
        self,
        jinja_context: Any,
        content_block: Any,
        index: Any = None,
        content_block_id: Any = None,
        render_to_markdown: bool = False,
    ) -> Any:
        """Return a block's HTML; the template escapes a value that is not a block."""
        if isinstance(content_block, list):
            return Markup("").join(
                self._element(jinja_context, one, number, content_block_id)
                for number, one in enumerate(content_block)
            )
        made = super().render_content_block(
            jinja_context, content_block, index, content_block_id, render_to_markdown
        )
        is_block = isinstance(content_block, dict) and "content_block_type" in content_block
        return Markup(made) if is_block else made

    def _element(self, jinja_context: Any, element: Any, number: int, content_block_id: Any) -> Markup:
        if not (isinstance(element, dict) and "content_block_type" in element):
            return Markup("<span>{}</span>").format(element)
        of_element = f"{content_block_id}-{number}" if content_block_id else None
        return Markup(self.render_content_block(jinja_context, element, number, of_element))

    def render_string_template(self, template: Any) -> Any:
        """Return the HTML of a text with parameters, which are escaped like the text itself."""
        if not isinstance(template, dict):
            return template
        # Great Expectations modifies its argument.
        safe = copy.deepcopy(template)
        safe["template"] = _text(safe.get("template", ""))
        safe["tag"] = _tag(safe.get("tag", "span"))
        if "tooltip" in safe:
            safe["tooltip"] = {
                "content": _text(safe["tooltip"]["content"]),
                "placement": _tag(safe["tooltip"].get("placement", "top")),
            }
        return Markup(super().render_string_template(safe))  # type: ignore[no-untyped-call]

    @staticmethod
    def _escape_template_param_value(value: Any) -> Any:
        """Return a parameter of a text; a list is shown as its Python text."""
        return html.escape(str(value))

    def render_styling(self, styling: Mapping[str, Any]) -> Markup:
        """Return the attributes of an element."""
        attributes = dict(styling.get("attributes") or {})
        if classes := styling.get("classes"):
            attributes["class"] = " ".join(classes)
        if styles := styling.get("styles"):
            attributes["style"] = " ".join(f"{name}:{value};" for name, value in styles.items())
        return self.attributes_dict_to_html_string(attributes)

    def render_styling_from_string_template(self, template: Any) -> Markup:
        """Return the attributes of a text's element."""
        styling = template.get("styling") if isinstance(template, dict) else None
        return self.render_styling(styling or {})

    def attributes_dict_to_html_string(self, attributes_dict: dict[str, Any], prefix: str = "") -> Markup:
        """Return attributes, each with the prefix before its name."""
        begin = f"{prefix}-" if prefix else ""
        return Markup(" ").join(
            Markup('{}="{}"').format(begin + name, value) for name, value in attributes_dict.items()
        )

    def render_markdown(self, markdown: str) -> Markup:
        """Return the HTML of a Markdown text; HTML within it is escaped."""
        return Markup(super().render_markdown(markdown))  # type: ignore[no-untyped-call]


class OfflineIndexView(OfflinePageView, DefaultJinjaIndexPageView):
    """Renders the list of validations and suites."""


def _text(text: object) -> str:
    return _LINE_BREAK.sub("<br>", str(escape(text)))


def _tag(name: object) -> str:
    return name if isinstance(name, str) and _TAG.fullmatch(name) else "span"
