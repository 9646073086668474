"""What every page of our own has to be: whole, with nothing beside itself, and with nothing that runs."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

from tests.support.pages.links import require_relative

VOID = {"meta", "link", "br", "img", "input", "hr"}


class _Balanced(HTMLParser):
    """Fails on a tag that is closed and was not opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes {self.open[-1:]}"


def require_whole(html: str) -> None:
    """Fail unless every tag is closed, no id is there twice, and each address is relative to the page."""
    parser = _Balanced()
    parser.feed(html)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids)), sorted(
        {one for one in parser.ids if parser.ids.count(one) > 1}
    )
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)
    require_relative(html)
    assert " style=" not in html and not re.search(r"\son\w+=", html), "its policy would refuse them"
    assert "nan" not in re.findall(r' d="([^"]*)"', html)


def require_allowed(html: str, policy: str) -> None:
    """Fail unless the policy takes the page's own style and script, and no other."""
    for tag in ("style", "script"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, flags=re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert "'unsafe-inline'" not in policy


def text(html: str) -> str:
    """What a person reads."""
    body = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", html, flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())
