"""The stream that docs/new-stream.md shows is made of the page's own code, and works."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spark_jobs
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.api.record_fields import Bounds
from stateward.runtime.ingest.parse import Parsed, Parser
from stateward.runtime.sink.output_rows import decode_rows, encode_rows

PAGE = Path(__file__).resolve().parents[3] / "docs" / "new-stream.md"
MODULE = re.compile(r"^## \d+\. [^\n]*`spark_jobs/(?P<path>[^`]+\.py)`$(?P<text>.*?)^(?=## )", re.M | re.S)
CODE = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
MINUTE_MS = 60_000


@pytest.fixture
def declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The page's module ``declaration``, from a folder that holds what the page shows and nothing else."""
    for found in MODULE.finditer(PAGE.read_text()):
        target = tmp_path / found["path"]
        target.parent.mkdir(exist_ok=True)
        (code,) = CODE.findall(found["text"])
        target.write_text(code)
    (folder,) = tmp_path.iterdir()
    assert {file.name for file in folder.iterdir()} == {"model.py", "logic.py", "declaration.py"}
    (folder / "__init__.py").touch()
    monkeypatch.setattr(spark_jobs, "__path__", [*spark_jobs.__path__, str(tmp_path)])
    yield importlib.import_module(f"spark_jobs.{folder.name}.declaration")
    for name in [name for name in sys.modules if name.startswith(f"spark_jobs.{folder.name}")]:
        del sys.modules[name]


def test_it_names_every_type_that_shipped_tables_have() -> None:
    declared = {
        column
        for file in PAGE.parents[1].glob("spark_jobs/*/declaration.py")
        for column in re.findall(r'Column\("\w+", "(?:array<)?(\w+)>?"', file.read_text())
    }
    (sentence,) = re.findall(r"A `Column` is a ([^.]*)\.", PAGE.read_text())
    assert {"string", "timestamp"} < declared <= set(re.findall(r"`(\w+)`", sentence))


def test_its_rows_are_what_the_page_says(declaration: Any) -> None:
    job = declaration.JOB
    config: Any = SimpleNamespace(logic={"quiet_ms": 15 * MINUTE_MS})
    parser = Parser(
        job.fields(config), Bounds(not_before_ms=0, max_ahead_ms=MINUTE_MS, max_record_bytes=1000)
    )
    events = []
    for number, (minute, result) in enumerate(
        [(0, "opened"), (1, "refused"), (2, "refused"), (3, "opened"), (10, "refused"), (25, "refused")]
    ):
        record = (
            f'{{"event_id":"e{number}","badge_id":"b","result":"{result}",'
            f'"event_time":"1970-01-01T00:{minute:02}:00Z"}}'
        )
        parsed = parser.parse(record.encode(), minute * MINUTE_MS)
        assert isinstance(parsed, Parsed), parsed
        events.append(job.event_type(*job.event(parsed.record, parsed.event_ms)))

    rows = replay_oracle(job.logic(config), "b", events)

    (output,) = job.outputs
    found = decode_rows(encode_rows(output.table, rows)).to_pylist()
    assert [(row["refusals"], row["outcome"], row["last_at"].minute) for row in found] == [
        (2, "OPENED", 2),
        (1, "GAVE_UP", 10),
        (1, "GAVE_UP", 25),
    ]
