"""Which tests `make test` leaves to `make full`: others of their kind show the same in less time.

`make test` takes everything that has no marker `full`, `make ci-full` those of them that CI has time for,
and `make full` everything.
"""

from __future__ import annotations

import pytest

only_full = pytest.mark.full
"""In `make full` alone."""

ci_full = pytest.mark.full(ci=True)
"""In `make full`, and in what CI takes of it."""
