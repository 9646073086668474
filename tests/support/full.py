"""Cases that `make test` leaves to `make full`: others of their kind show the same."""

from __future__ import annotations

import os

import pytest

FULL = "FULL" in os.environ

only_full = pytest.mark.skipif(not FULL, reason="another of its kind is in make test; make full has all")
