"""Replay without Kafka: lines, keys, event times, the tick, and pacing."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stateward.cli.main import app
from stateward.replay.pacing import Pacer
from stateward.replay.records import LatestEventTime, event_time_of, key_of, parse, tick_value
from stateward.replay.source import LineSource
from stateward.replay.tick import FALLBACK, tick_after

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
# Bytes that are not UTF-8, a carriage return, an empty line, and no line feed at the end.
LINES = [b'{"user_id": "a"}', b"\xff\xfe not json", b"with return\r", b"", b"last"]


def test_a_time_of_a_tick_without_a_tick_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(LINES[0])
    command = ["replay", str(tmp_path / "events.jsonl"), "--topic", "t", "--tick-after", "48h"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", " ").split())
    assert "--tick-after 48h: no tick is sent without --tick. Add --tick, or leave --tick-after out." in said


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
def test_lines_arrive_byte_for_byte(tmp_path: Path, compress: bool, stdin: bool) -> None:
    content = b"\n".join(LINES)
    content = gzip.compress(content) if compress else content
    path = tmp_path / "events"  # no suffix: the content says what it is
    path.write_bytes(content)
    source = LineSource("-", stdin=io.BytesIO(content)) if stdin else LineSource(str(path))
    with source:
        assert list(source) == LINES
        assert source.bytes_read == len(content)
        assert source.total_bytes == (None if stdin else len(content))


def test_a_truncated_gzip_is_an_error_after_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"\n".join(b"%d" % n for n in range(100_000)))[:-20])
    with LineSource(str(path)) as source, pytest.raises(EOFError):
        list(source)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"user_id": "a"}', b"a"),
        (b'{"user_id": 7}', b"7"),
        ('{"user_id": "ü"}'.encode(), "ü".encode()),
        (b'{"user_id": "\\ud800"}', b"?"),
        (b'{"user_id": null}', None),
        (b'{"user_id": true}', None),
        (b'{"user_id": ["a"]}', None),
        (b"{}", None),
        (b'["a"]', None),
        (b"{", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_the_key_is_the_key_field_if_it_can_be_read(line: bytes, key: bytes | None) -> None:
    assert key_of(parse(line), "user_id") == key


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"user": {"id": "a"}}', b"a"),
        (b'{"user.id": "a", "user": {"id": "b"}}', b"a"),
        (b'{"user": {"name": "a"}}', None),
        (b'{"user": "a"}', None),
        (b'{"user": {"id": {"id": "a"}}}', None),
        (b"[]", None),
    ],
)
def test_the_key_field_may_be_a_path(line: bytes, key: bytes | None) -> None:
    assert key_of(parse(line), "user.id") == key


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2015-05-17T10:05:03Z", datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)),
        ("2015-05-17T12:05:03+02:00", datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)),
        ("2015-05-17T10:05:03", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        (1431857103, None),
    ],
)
def test_an_event_time_needs_its_zone(text: object, expected: datetime | None) -> None:
    assert event_time_of({"event_time": text}) == expected


def test_the_latest_event_time_ignores_the_far_future() -> None:
    latest = LatestEventTime(NOW)
    for moment in (NOW - timedelta(days=1), None, NOW + timedelta(minutes=59), NOW + timedelta(hours=2)):
        latest.see(moment)
    assert latest.value == NOW + timedelta(minutes=59)


def test_a_tick_says_its_time_in_utc() -> None:
    assert json.loads(tick_value(NOW)) == {"tick": "2026-01-31T12:00:00.000Z"}


def test_the_tick_goes_beyond_the_longest_timeout_of_the_readers() -> None:
    from stateward.project.settings import Settings
    from stateward.project.spec import load_spec

    folder = Settings().streams
    spec = load_spec("user_sessions", folder)
    assert spec.source.topic is not None
    assert tick_after(spec.source.topic, folder) == spec.longest_timeout
    assert tick_after("read_by_nobody", folder) == FALLBACK


class Clock:
    """A clock that only sleeping and `work` move."""

    def __init__(self) -> None:
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def test_pacing_keeps_the_mean_rate_through_a_slow_moment() -> None:
    clock = Clock()
    pacer = Pacer(10, clock.time, clock.sleep)
    sent_at = []
    for number in range(21):
        pacer.wait()
        sent_at.append(clock.now - 100)
        if number == 5:
            clock.now += 0.75  # the broker was slow
    assert sent_at[:6] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert sent_at[6] == pytest.approx(1.25), "late, as the broker was"
    assert sent_at[20] == pytest.approx(2.0), "caught up"


def test_no_rate_never_sleeps() -> None:
    clock = Clock()
    pacer = Pacer(None, clock.time, clock.sleep)
    for _ in range(1000):
        pacer.wait()
    assert clock.now == 100


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_has_to_be_positive(rate: float) -> None:
    with pytest.raises(ValueError, match="--rate"):
        Pacer(rate, lambda: 0.0, lambda _: None)
