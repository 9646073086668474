"""A stream with a key that is to be forgotten, in every place where it can be without Airflow."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec import structs

from spark_jobs.raw_events.declaration import RAW_EVENTS
from stateward.contract.names import ENV_MASK_SECRET
from stateward.contract.requests import TracePlaces
from stateward.contract.storage import write_json
from stateward.quality.privacy.masking import mask
from stateward.quality.quarantine.quarantine import QUARANTINE
from stateward.runtime.api.tables import arrow_schema
from stateward.state.job import perform, write_result
from stateward.state.operation.answer import Answer
from stateward.state.operation.request import Request
from tests.support.spark.launches import Launch
from tests.support.state.operations import request_of

SECRET = "a secret of the tests"
NOW = datetime(2024, 3, 2, tzinfo=UTC)

Record = tuple[bytes, bytes]


def forget_request(launch: Launch, key: str, *, dry_run: bool = False) -> Request:
    """The request that the control plane would write: the key is in a file beside it."""
    request = request_of(launch, "forget", dry_run=dry_run, key="key.secret.json")
    folder_uri = launch.uri("operations", request.operation)
    write_json(f"{folder_uri}/key.secret.json", {"value": key})
    return structs.replace(
        request,
        folder_uri=folder_uri,
        secrets=("key",),
        operations_uri=launch.uri("operations"),
        logs_uri=launch.uri("logs"),
        places=TracePlaces(
            tables_uri=launch.uri("tables"),
            texts=(launch.uri("quality"), launch.uri("logs")),
            rebuilt=(launch.uri("reconciliation"),),
        ),
    )


def forget(
    launch: Launch, key: str, monkeypatch: pytest.MonkeyPatch, *, dry_run: bool = False
) -> tuple[Request, Answer]:
    """Forget a key as the job does, with its result and its page."""
    monkeypatch.setenv(ENV_MASK_SECRET, SECRET)
    request = forget_request(launch, key, dry_run=dry_run)
    answer = perform(request)
    write_result(request, NOW, "done", "", answer)
    return request, answer


def land(launch: Launch, records: list[Record]) -> None:
    """Write records of a topic with one partition to `raw_events`."""
    uri = launch.uri("tables", "raw_events")
    RAW_EVENTS.create(uri)
    have = DeltaTable(uri).to_pyarrow_table().num_rows
    rows = [
        {
            "topic": launch.topic,
            "partition": 0,
            "offset": have + number,
            "record_timestamp": NOW,
            "date": NOW.date(),
            "key": key,
            "value": value,
        }
        for number, (key, value) in enumerate(records)
    ]
    _append(uri, rows, RAW_EVENTS)


def leave_traces(launch: Launch, key: str) -> None:
    """What other parts of the platform write of a key: quarantine, a page, a log, an explanation."""
    uri = launch.uri("tables", "quarantine")
    QUARANTINE.create(uri)
    masked = mask(SECRET, key)
    mine = {"stream": launch.stream.name, "table": "sessions", "run_id": "run", "name": "one"}
    row = json.dumps({"user_id": masked, "event_count": 1})
    _append(
        uri, [{**mine, "row": row, "row_hash": "ab"}, {**mine, "row": "{}", "row_hash": "cd"}], QUARANTINE
    )
    texts = {
        "quality/docs/page.html": f"<td>{masked}</td><td>{key}</td>",
        "logs/driver.log": f"an error for key {key}\n",
        "operations/20240101T000000Z-explain/request.json": json.dumps({"arguments": {"key": key}}),
        "operations/20240101T000000Z-explain/index.html": f"<p>{key}</p>",
        "operations/20240101T000001Z-inspect/index.html": "<p>nothing</p>",
        "reconciliation/report.json": json.dumps({"shown": [key]}),
    }
    for path, text in texts.items():
        file = launch.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _append(uri: str, rows: list[dict[str, Any]], table: Any) -> None:
    import pyarrow as pa

    write_deltalake(uri, pa.Table.from_pylist(rows, schema=arrow_schema(table)), mode="append")


def folder_of(uri: str) -> Path:
    """The local folder at a URI."""
    return Path(uri.removeprefix("file://"))
