"""Follows the links of pages, as a person could."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin

import httpx

_FOLLOWED = {"href", "src"}
_SENT_TO = {"action", "formaction", "data-send"}


class _Links(HTMLParser):
    """The addresses that a page leads to, and those that it sends something to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.followed: list[str] = []
        self.sent_to: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.followed += [value or "" for name, value in attrs if name in _FOLLOWED]
        self.sent_to += [value or "" for name, value in attrs if name in _SENT_TO]


def require_relative(html: str) -> None:
    """Fail if an address of the page leaves out the prefix below which a proxy serves it."""
    found = _Links(html)
    assert not [one for one in (*found.followed, *found.sent_to) if one.startswith("/")]


def follow(
    get: Callable[[str], httpx.Response], base_url: str, starts: Iterable[str], *, read: str
) -> dict[str, str]:
    """Open pages and all that they link to, breadth-first.

    Fails unless each address is below the base URL, and its page is there.

    Args:
        get: Opens a page without following a redirect.
        base_url: Airflow's base URL, without a slash at its end.
        starts: The first pages.
        read: A page whose path below the base URL begins so is searched for links; others are only opened.

    Returns:
        The text of each page by its URL; empty for a redirect.
    """
    found: dict[str, str] = {}
    waiting = deque((url, "a start") for url in starts)
    while waiting:
        linked, origin = waiting.popleft()
        url = urldefrag(linked).url
        assert url.startswith(f"{base_url}/"), f"{url}, from {origin}, is not below {base_url}"
        if url in found:
            continue
        answer = get(url)
        if answer.is_redirect:
            found[url] = ""
            waiting.append((urljoin(url, answer.headers["location"]), url))
            continue
        assert answer.status_code == 200, f"{url}, from {origin}: {answer.status_code} {answer.text[:300]}"
        found[url] = answer.text
        if url.startswith(f"{base_url}{read}") and answer.headers["content-type"].startswith("text/html"):
            links = _Links(answer.text)
            for one in links.sent_to:
                assert urljoin(url, one).startswith(f"{base_url}/"), f"{one}, from {url}"
            waiting += [(urljoin(url, one), url) for one in links.followed]
    return found
