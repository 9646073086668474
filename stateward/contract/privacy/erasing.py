"""How a forgotten key is found in a text, and what stands in its place. Pure."""

from __future__ import annotations

import re

ERASED = "forgotten"
"""Stands where a key stood in a text."""


def as_word(*forms: str) -> re.Pattern[str]:
    """Return what finds a key as a whole word: a shorter key must not be found in a longer one.

    Args:
        forms: How the key may be written.
    """
    ways = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{ways})(?![\w-])")
