"""The headers of a record, also those whose names are not text."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from confluent_kafka import Message

Header = tuple[str, bytes | None]

NOT_UTF8 = "\ufffd"
"""Stands for a name that is not UTF-8. Kafka's own client decodes such a name to characters like this one."""


def headers_of(message: Message) -> list[Header]:
    """Names and raw values in their order; empty if there are none.

    Kafka takes any bytes for a name, and confluent-kafka decodes it. It fails once, and has then kept all
    headers: of a name that it could not decode the pair has no first item.
    """
    try:
        found = message.headers()
    except (SystemError, UnicodeDecodeError):
        found = message.headers()
    # A consumer gives pairs; the client's types allow what a producer may give as well.
    return [_header(pair) for pair in cast("list[Header]", found or [])]


def _header(pair: Header) -> Header:
    # To ask for an item that is not there would end the process; the collector counts those that are.
    if len(gc.get_referents(pair)) == 2:
        return pair
    (value,) = pair[1:]
    return NOT_UTF8, value
