"""Status and control documents: of this release, the last one and the next one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from stateward.contract.process_identity import ProcessIdentity
from stateward.contract.reading import InvalidDocumentError, as_json, iso
from stateward.contract.stream_control import (
    Control,
    DriverOrders,
    Failure,
    Hold,
    Launch,
    Override,
    control_from,
    orders_in,
)
from stateward.contract.stream_status import (
    Buckets,
    BucketSize,
    Cause,
    ClusterRoom,
    OperatorState,
    Status,
    status_from,
)
from stateward.runtime.telemetry.status import StatusFile

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
BOUNDS = {"held_full": 3, "folded_early": 0, "below_floor": 0, "ids_full": 0, "ids_forgotten": 0}
# Both as release 0.1.0 has written them.
STATUS_OF_THE_LAST_RELEASE = """
{"version":1,"stream":"user_sessions","run_id":"r1","state":"running","message":"","cause":null,
"phase":"query","phase_at":"2026-01-31T12:00:00.000Z","epoch":3,"host":"h/b/n","pid":7,"pid_started":1.5,
"python_pid":8,"started_at":"2026-01-31T12:00:00.000Z","updated_at":"2026-01-31T12:00:00.000Z",
"generation":2,"checkpoint":"file:///c/g0002","batch_id":17,"last_batch_at":"2026-01-31T11:59:58.123Z",
"batch_duration_ms":840,"input_rows":1200,"input_rows_per_s":900.0,"watermark":"2026-01-31T11:58:00.000Z",
"event_time_behind_ms":5000,"dead_share":0.0,"late_share":0.5,"timestamps":"CreateTime","caught_up":false,
"lag_records":4200,"lag_change_per_s":-35.5,"behind_since":"2026-01-31T11:59:51.000Z","state_rows":1753,
"state_bytes":812345,"state_file_bytes":2812345,"state_commit_ms":85.5,"state_update_ms":0.031,
"state_removal_ms":2.0,"memory_bytes":1250000000,"delivered":10000,"without_record":2,"accepted":9998,
"dead":1,"late":0,"duplicates":1,"bounds":{"held_full":3,"folded_early":0,"below_floor":0,"ids_full":0,
"ids_forgotten":0},"rows_out":41}"""
CONTROL_OF_THE_LAST_RELEASE = """
{"version":1,"stream":"user_sessions","desired":"running","run_id":"r2",
"requested_at":"2026-01-31T12:00:00.000000Z","requested_by":"state_operations/manual__1",
"reason":"after savepoint","launch":{"run_id":"r1","pid":7,"pid_started":1.5,"host":"h/b/n",
"at":"2026-01-31T12:00:00.000000Z","log":"/l/driver.log","failure":{"kind":"killed",
"cause":"its JVM was killed by SIGKILL","signal":"SIGKILL"},"end_reason":"the driver hangs"},
"restarts":["2026-01-31T12:00:00.000000Z","2026-01-31T12:00:01.000000Z"],"failures":7,
"failures_since":"2026-01-30T12:00:00.000000Z","hold":{"by":"state_operations/manual__1","why":"savepoint",
"at":"2026-01-31T12:00:00.000000Z"},"declared":"running","release":"1f0c-5a6b","override":
{"desired":"suspended","author":"ann","reason":"the disk is changed","at":"2026-01-31T12:00:00.000000Z"}}"""

NEW_IN_THE_STATUS = {
    "awaits",
    "spark_ui",
    "lag_by_topic",
    "operators",
    "state_keys",
    "live_bytes",
    "largest_key_bytes",
    "partition_bytes",
    "buckets",
    "key_growth",
    "state_growth",
}

STATUS = Status(
    "user_sessions",
    "r1",
    "running",
    NOW,
    NOW,
    phase="query",
    phase_at=NOW,
    epoch=3,
    host="h/b/n",
    pid=7,
    pid_started=1.5,
    python_pid=8,
    generation=2,
    checkpoint="file:///c/g0002",
    batch_id=17,
    last_batch_at=datetime(2026, 1, 31, 11, 59, 58, 123_000, UTC),
    batch_duration_ms=840,
    input_rows=1200,
    input_rows_per_s=900.0,
    watermark=NOW - timedelta(minutes=2),
    event_time_behind_ms=5000,
    dead_share=0.0,
    late_share=0.5,
    timestamps="CreateTime",
    caught_up=False,
    lag_records=4200,
    lag_change_per_s=-35.5,
    behind_since=NOW - timedelta(seconds=9),
    state_rows=1753,
    state_bytes=812_345,
    state_file_bytes=2_812_345,
    state_commit_ms=85.5,
    state_update_ms=0.031,
    state_removal_ms=2.0,
    memory_bytes=1_250_000_000,
    delivered=10_000,
    without_record=2,
    accepted=9998,
    dead=1,
    late=0,
    duplicates=1,
    bounds=BOUNDS,
    rows_out=41,
)
KILLED = Failure("killed", "its JVM was killed by SIGKILL", "SIGKILL")
CONTROL = Control(
    "user_sessions",
    "running",
    "r2",
    NOW,
    "state_operations/manual__1",
    "after savepoint",
    Launch("r1", NOW, "h/b/n", "/l/driver.log", 7, 1.5, KILLED, "the driver hangs"),
    (NOW, NOW + timedelta(seconds=1)),
    7,
    NOW - timedelta(days=1),
    Hold("state_operations/manual__1", "savepoint", NOW),
    "running",
    Override("suspended", "ann", "the disk is changed", NOW),
    "1f0c-5a6b",
)


def form(value: Any) -> Any:
    """The fields of a document with their types; a time is one, however many digits it has."""
    if isinstance(value, dict):
        return {name: form(one) for name, one in value.items()}
    if isinstance(value, list):
        return [form(one) for one in value]
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value


def test_documents_of_the_last_release_are_read() -> None:
    assert status_from(json.loads(STATUS_OF_THE_LAST_RELEASE)) == (STATUS, [])
    assert control_from(json.loads(CONTROL_OF_THE_LAST_RELEASE)) == CONTROL


def test_documents_have_the_form_that_the_last_release_reads() -> None:
    written, known = form(as_json(CONTROL)), form(json.loads(CONTROL_OF_THE_LAST_RELEASE))
    # The last release passes over a field that it does not know.
    assert written == known | {"launch": known["launch"] | {"application": None}}
    unknown = dict.fromkeys(NEW_IN_THE_STATUS)
    assert form(as_json(STATUS)) == form(json.loads(STATUS_OF_THE_LAST_RELEASE)) | unknown


def test_a_status_says_which_executors_are_waited_for() -> None:
    room = {"workers": 1, "cores": 2, "memory_mb": 9, "free_cores": 0, "free_memory_mb": 9, "fits": False}
    awaits = {"since": iso(NOW), "cores": 1, "memory_mb": 9, "room": {**room, "of_tomorrow": 1}}
    found, errors = status_from({**as_json(STATUS), "awaits": awaits})
    assert errors == [] and found.awaits is not None
    assert (found.awaits.since, found.awaits.room) == (NOW, ClusterRoom(1, 2, 9, 0, 9, fits=False))
    found, errors = status_from({**as_json(STATUS), "awaits": {"since": "soon"}})
    assert (found.awaits, len(errors)) == (None, 1)


def test_a_status_says_how_large_the_state_is() -> None:
    document = {
        **as_json(STATUS),
        "operators": [{"name": "dedupe", "rows": 7, "of_tomorrow": 1}],
        "buckets": {"generation": 2, "unknown": 0, "sizes": {"17": [0, 3, 900, 500]}},
    }
    found, errors = status_from(document)
    assert (found.operators, found.buckets) == (
        (OperatorState("dedupe", rows=7),),
        Buckets(2, 0, {"17": BucketSize(0, 3, 900, 500)}),
    )
    assert errors == []
    assert json.loads(json.dumps(as_json(found)))["buckets"]["sizes"] == {"17": [0, 3, 900, 500]}
    found, errors = status_from({**document, "operators": [{"rows": 7}]}, "s.json")
    assert found.operators is None
    assert errors == ["s.json: operators.name: expected a value, found nothing"]


def test_a_driver_writes_what_the_control_plane_reads(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/s.json"
    process = ProcessIdentity("h/b/n", 7, 1.5)
    file = StatusFile(uri, stream="s", run_id="r1", process=process, python_pid=8, clock=lambda: NOW)
    file.enter("session")
    cause = Cause("disk_full", lasting=False)
    file.update(state="waiting", cause=as_json(cause), watermark=iso(NOW), lag_records=3, bounds=BOUNDS)
    written = json.loads((tmp_path / "s.json").read_text())
    assert written.keys() == json.loads(STATUS_OF_THE_LAST_RELEASE).keys() | NEW_IN_THE_STATUS
    expected = Status("s", "r1", "waiting", NOW, NOW, cause=cause, phase="session", phase_at=NOW)
    process_fields = {"host": "h/b/n", "pid": 7, "pid_started": 1.5, "python_pid": 8}
    known = structs.replace(expected, **process_fields, watermark=NOW, lag_records=3, bounds=BOUNDS)
    assert status_from(written) == (known, [])
    with pytest.raises(TypeError, match="expected fields of a status, found lag_record"):
        file.update(lag_record=3)


def test_fields_of_the_next_release_are_ignored_and_those_of_an_early_one_have_defaults() -> None:
    more = {"of_tomorrow": {"a": 1}}
    assert status_from({**as_json(STATUS), **more, "version": 2}) == (structs.replace(STATUS, version=2), [])
    document = as_json(CONTROL)
    assert control_from({**document, **more, "launch": {**document["launch"], **more}}) == CONTROL
    least = {"stream": "s", "run_id": "r1", "state": "running"}
    times = {"started_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:00Z"}
    early, errors = status_from({**least, **times, "consumed": 5})
    assert (early, errors) == (Status("s", "r1", "running", NOW, NOW, delivered=5), [])
    asked = {"stream": "s", "run_id": "r1", "desired": "running", "requested_at": "2026-01-31T12:00:00Z"}
    assert control_from(asked) == Control("s", "running", "r1", NOW)


def test_a_measure_that_is_wrong_is_not_known_and_is_named() -> None:
    document = {**as_json(STATUS), "lag_records": "many", "behind_since": "yesterday", "bounds": {"x": "y"}}
    found, errors = status_from(document, "s.json")
    assert found == structs.replace(STATUS, lag_records=None, behind_since=None, bounds=None)
    assert sorted(errors) == [
        "s.json: behind_since: expected a time such as 2026-01-31T12:00:00Z, found 'yesterday'",
        "s.json: bounds: expected int, found {'x': 'y'}",
        "s.json: lag_records: expected int | null, found 'many'",
    ]
    for field in ("stream", "run_id", "started_at"):
        with pytest.raises(InvalidDocumentError, match=field):
            status_from({**document, field: 5})
    states = "starting, running, waiting, draining, stopped, refused, failed"
    with pytest.raises(InvalidDocumentError, match=f"state: expected one of {states}, found 'dancing'"):
        status_from({**document, "state": "dancing"})


def test_a_driver_obeys_whatever_else_the_document_holds() -> None:
    document = as_json(CONTROL)
    assert orders_in(document, "c.json").launch == CONTROL.launch
    odd = {**document, "desired": "of tomorrow", "launch": {"run_id": 5}, "requested_by": None}
    orders = DriverOrders("of tomorrow", "r2", "", "after savepoint")
    assert orders_in(odd, "c.json") == orders
