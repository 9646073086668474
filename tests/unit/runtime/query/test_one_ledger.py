"""A driver and the first batch of its query count in one ledger."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from spark_jobs.raw_events.declaration import JOB
from stateward.contract.names import BATCH_COUNTS
from stateward.runtime.api.config import parse_config
from stateward.runtime.query import stream_query
from tests.unit.runtime.telemetry.test_documents import CONFIG

# The other thread can only be seen not to come this far.
_PATIENCE_S = 0.5


def test_two_threads_that_ask_at_once_get_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch may run before the query's start has returned to the driver."""
    tables = {**CONFIG["tables"], BATCH_COUNTS: f"file://{tmp_path}/counts"}
    own = {"tables": tables, "checkpoint_uri": f"file://{tmp_path}/checkpoint"}
    config = parse_config({**CONFIG, **own}, "here")
    none = cast("Any", None)
    query = stream_query.StreamQuery(none, JOB, config, {}, none, note_start=none)
    opened: list[object] = []
    batch = Thread(target=lambda: opened.append(query.ensure_ledger("g")))

    class SlowLedger:
        def __init__(self, *_: object) -> None:
            if not batch.ident:
                batch.start()
                batch.join(_PATIENCE_S)

    monkeypatch.setattr(stream_query, "Ledger", SlowLedger)
    mine = query.ensure_ledger("g")
    batch.join(60)
    assert opened == [mine]
