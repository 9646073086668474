"""The operator's page as self-contained HTML."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from stateward.control.reconcile.leader_heartbeat import STALE_AFTER
from stateward.pages.inline_page import SelfContainedPage
from stateward.pages.streams.view import OPERATOR_COLUMNS, Documents, StreamView, in_order, stream_view
from stateward.rendering.charts import left_edge
from stateward.rendering.human_units import format_ago, format_duration, format_time

_LOG = logging.getLogger(__name__)

MOST_HOURS = 24
"""Longest time that the page shows, hours; drivers keep no more."""

_CHOICES = (1, 6, MOST_HOURS)
_LEAST = timedelta(minutes=15)
_PAGE = SelfContainedPage("streams.html.j2", style="streams.css", refresh_s=15)


def render(read: Sequence[Documents], now: datetime, hours: int) -> str:
    """Render the page.

    Args:
        read: The documents of each stream.
        now: The time, aware.
        hours: Time that the charts show, 1 to `MOST_HOURS`.
    """
    first = min((one.samples[0].at for one in read if one.samples), default=None)
    # All charts begin at the same time, so that simultaneous events of several streams line up.
    begin = left_edge(first, now, timedelta(hours=hours), _LEAST)
    views = in_order([_view(one, begin, now) for one in read])
    return _PAGE.render(
        views=views,
        operator_columns=OPERATOR_COLUMNS,
        summary=_summary(views),
        now=now.astimezone(UTC),
        hours=hours,
        shown=format_duration((now - begin).total_seconds()),
        choices=_choices(hours),
        moment=functools.partial(format_time, now=now),
        ago=functools.partial(format_ago, now=now),
    )


def content_policy() -> str:
    """Return the page's Content-Security-Policy."""
    return _PAGE.content_policy()


def _view(read: Documents, begin: datetime, now: datetime) -> StreamView:
    try:
        return stream_view(read, begin, now, STALE_AFTER.total_seconds())
    except (TypeError, ValueError, ArithmeticError) as error:
        # Reading checks that a document has its fields, but not the type of each.
        _LOG.exception("stream %s: its documents cannot be shown", read.stream)
        problem = f"its documents do not hold what docs/architecture.md says: {error}"
        unreadable = Documents(read.stream, links=read.links, problems=(*read.problems, problem))
        return stream_view(unreadable, begin, now, STALE_AFTER.total_seconds())


def _choices(hours: int) -> tuple[int, ...]:
    return tuple(sorted({*_CHOICES, hours}))


def _summary(views: Sequence[StreamView]) -> list[tuple[str, str]]:
    """Count streams by condition, such as `("bad", "1 failed")`, the worst first."""
    counted = Counter((view.level, view.condition.state) for view in views)
    worst_first = ("bad", "warn", "good", "calm")
    return [
        (level, f"{number} {state}")
        for (level, state), number in sorted(
            counted.items(), key=lambda item: (worst_first.index(item[0][0]), item[0][1])
        )
    ]
