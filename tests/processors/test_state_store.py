"""The contract of a store of states (`state_store`), for each store that there is.

A plain dictionary is the model. Spark's part, the commit of state variables and timers with the batch, is
played on the handle of its TwsTester.
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyspark.sql.streaming.tws_tester import _InMemoryStatefulProcessorHandle

from stateward.contract.stream_status import BucketSize
from stateward.runtime.keyed import bucket_copy, log_index
from stateward.runtime.keyed.log_store import LogBackend
from stateward.runtime.keyed.state_log import GONE, HEAD_NAME, LOG_NAME, Head, decode_chunk
from stateward.runtime.keyed.state_store import BucketStates, Encoded, StateBackend, StateRules, StateStore
from stateward.testing.bucket_bench import close_copies
from stateward.testing.memory_store import MemoryBackend

BUCKETS = (0, 7)
LONG_KEY = "k" * 600
KEYS = ["a", "b", "", "ключ", "x\x00y", 'quo"te', LONG_KEY, LONG_KEY + "2"]
States = dict[str, tuple[int, int]]  # by key: when it is due, and how much padding its state has


def encoded(due_ms: int, padding: int = 0, version: int = 1) -> bytes:
    return json.dumps({"due": due_ms, "v": version, "p": "x" * padding}).encode()


def packed(text: bytes) -> bytes:
    return text[1:]


def loaded(key: str, text: bytes) -> tuple[Encoded, int]:
    return Encoded(text, packed(text)), int(json.loads(text)["due"])


def upgraded(of: int, key: str, state: bytes) -> bytes:
    found = json.loads(state)
    assert found["v"] == of
    return encoded(found["due"], len(found["p"]), 2)


class Spark:
    """What Spark does around a store: a handle, whose content is committed with the batch or not at all."""

    def __init__(self, backend: StateBackend) -> None:
        self.backend = backend
        self.version, self.layout = 1, "due,v,p"
        self.handle = _InMemoryStatefulProcessorHandle("EventTime")
        self.store: StateStore[Any]
        self.begin()

    def begin(self) -> None:
        """Begin a task."""
        self._before = copy.deepcopy(self.handle)
        rules = StateRules(self.version, self.layout, upgraded, loaded)
        self.store = self.backend.open(cast("Any", self.handle), rules)

    def bucket(self, number: int, passed_ms: int) -> BucketStates[Any]:
        self.handle.setGroupingKey(number)
        return self.store.bucket(number, passed_ms)

    def commit(self) -> None:
        self.store.commit()
        self.begin()

    def abort(self) -> None:
        self.store.abort()
        self._take_back()

    def _take_back(self) -> None:
        self.handle = self._before
        self.begin()

    def timers(self, number: int) -> list[int]:
        self.handle.setGroupingKey(number)
        return list(self.handle.listTimers())


class SparkWithCopies(Spark):
    """The copy of a log may be behind Spark's commit, ahead of it, or gone."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._machine = folder, 0
        super().__init__(LogBackend(str(folder / "0"), "file:///checkpoint"))

    def commit_without_copy(self) -> None:
        self.store.abort()
        self.begin()

    def abort_after_copy(self) -> None:
        self.store.commit()
        self._take_back()

    def move(self) -> None:
        self.store.commit()
        close_copies()
        self._machine += 1
        self.backend = LogBackend(str(self._folder / str(self._machine)), "file:///checkpoint")
        self.begin()


def stored(bucket: BucketStates[Any], key: str) -> Any:
    return bucket.find([key]).get(key)


def write(bucket: BucketStates[Any], key: str, due: int, padding: int = 0, version: int = 1) -> None:
    text, before = encoded(due, padding, version), stored(bucket, key)
    is_same = before is not None and before.packed == packed(text)
    bucket.put(key, before, None if is_same else Encoded(text, packed(text)), due)


def contents(bucket: BucketStates[Any]) -> dict[str, bytes]:
    found = dict(bucket.items())
    for key, state in found.items():
        read = stored(bucket, key)
        assert read is not None and read.packed == state
    return {key: b"{" + state for key, state in found.items()}


# Each store in a test of its own.
@pytest.fixture(params=["memory", "log and copy"])
def spark(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spark]:
    yield Spark(MemoryBackend()) if request.param == "memory" else SparkWithCopies(tmp_path)
    close_copies()


def test_a_key_is_read_as_written_until_it_is_removed(spark: Spark) -> None:
    bucket = spark.bucket(0, 0)
    assert stored(bucket, "a") is None
    for key in KEYS:
        write(bucket, key, 50)
    assert contents(bucket) == dict.fromkeys(KEYS, encoded(50))
    for key in KEYS:
        write(bucket, key, 60, padding=1)
    for key in KEYS[1:]:
        bucket.remove(key, stored(bucket, key))
    assert contents(bucket) == {"a": encoded(60, 1)}
    assert bucket.finish() == 50 or bucket.finish() == 60


def test_changes_are_for_the_task_until_it_commits(spark: Spark) -> None:
    bucket = spark.bucket(0, 0)
    write(bucket, "a", 50)
    bucket.finish()
    assert contents(spark.bucket(0, 0)) == {"a": encoded(50)}, "a later call of the task"
    assert contents(spark.bucket(7, 0)) == {}, "another bucket"
    spark.abort()
    assert contents(spark.bucket(0, 0)) == {}
    assert spark.timers(0) == []

    bucket = spark.bucket(0, 0)
    write(bucket, "a", 50)
    bucket.finish()
    spark.commit()
    bucket = spark.bucket(0, 0)
    bucket.remove("a", stored(bucket, "a"))
    bucket.finish()
    spark.abort()
    assert contents(spark.bucket(0, 0)) == {"a": encoded(50)}
    assert spark.timers(0) == [50]


def test_a_bucket_wakes_for_its_first_key_and_sleeps_when_it_is_empty(spark: Spark) -> None:
    bucket = spark.bucket(0, 0)
    for number in range(5):
        write(bucket, f"k{number}", 50 + number)
    assert bucket.finish() == 50
    spark.commit()
    bucket = spark.bucket(0, 52)
    assert sorted(bucket.due()) == ["k0", "k1", "k2"]
    for key in ("k0", "k1", "k2"):
        bucket.remove(key, stored(bucket, key))
    assert bucket.finish() == 53
    assert spark.timers(0) == [53]
    spark.commit()
    bucket = spark.bucket(0, 99)
    for key in bucket.due():
        bucket.remove(key, stored(bucket, key))
    assert bucket.finish() is None
    assert bucket.size() == BucketSize(0, 0, 0, 0)
    assert spark.timers(0) == []


def test_states_have_the_current_version_from_the_first_call_on(spark: Spark) -> None:
    bucket = spark.bucket(0, 0)
    write(bucket, "a", 50)
    write(bucket, LONG_KEY, 60)
    bucket.finish()
    spark.commit()
    spark.version = 2
    spark.begin()
    assert contents(spark.bucket(0, 0)) == {"a": encoded(50, 0, 2), LONG_KEY: encoded(60, 0, 2)}
    bucket = spark.bucket(0, 55)
    assert list(bucket.due()) == ["a"]
    write(bucket, "a", 70, version=2)
    assert bucket.finish() == 60
    spark.commit()
    assert contents(spark.bucket(0, 55)) == {"a": encoded(70, 0, 2), LONG_KEY: encoded(60, 0, 2)}


def test_a_copy_that_another_release_packed_is_built_again(tmp_path: Path) -> None:
    spark = SparkWithCopies(tmp_path)
    bucket = spark.bucket(0, 0)
    bucket.put("a", None, Encoded(encoded(50), b"of its own"), 50)
    bucket.finish()
    spark.commit()
    assert dict(spark.bucket(0, 0).items()) == {"a": b"of its own"}
    spark.store.abort()
    spark.layout = "v,due,p"
    spark.begin()
    bucket = spark.bucket(0, 0)
    assert contents(bucket) == {"a": encoded(50)}
    assert bucket.due() == {}
    assert bucket.size()[:3] == (0, 1, 1 + len(encoded(50)))
    spark.store.abort()
    close_copies()


class AnyUse(RuleBasedStateMachine):
    """Any changes of any buckets, in tasks that commit or not; the model has what Spark has committed."""

    make: Callable[[Path], Spark]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.spark = type(self).make(self.folder)
        self.committed: dict[int, States] = {number: {} for number in BUCKETS}
        self.states = copy.deepcopy(self.committed)
        self.passed_ms = 0

    def teardown(self) -> None:
        self.spark.store.abort()
        close_copies()
        shutil.rmtree(self.folder)

    @rule(
        number=st.sampled_from(BUCKETS),
        changes=st.dictionaries(
            st.sampled_from(KEYS), st.none() | st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=6
        ),
        by_timer=st.booleans(),
    )
    def process(self, number: int, changes: dict[str, tuple[int, int] | None], by_timer: bool) -> None:
        """One call: some keys change, then those that are due; half of these end, and others wait again."""
        passed_ms, model = self.passed_ms, self.states[number]
        expired = [timer_ms for timer_ms in self.spark.timers(number) if timer_ms <= passed_ms]
        fired = expired[0] if expired and by_timer else None
        bucket = self.spark.bucket(number, passed_ms)
        for key, change in changes.items():
            self.change(bucket, model, key, change)
        due = bucket.due()
        assert sorted(due) == sorted(key for key, (due_ms, _) in model.items() if due_ms <= passed_ms)
        for place, key in enumerate(due):
            self.change(bucket, model, key, None if place % 2 else (place + 1, place))
        timer_ms = bucket.finish(fired)
        if fired is not None:
            self.spark.handle.deleteTimer(fired)  # as Spark does after the call
        self.require_timer(number, timer_ms)
        self.require_size(bucket.size(), model)

    def change(
        self, bucket: BucketStates[Any], model: States, key: str, change: tuple[int, int] | None
    ) -> None:
        """Write a state that is due after some time, or remove it."""
        if change is not None:
            after_ms, padding = change
            model[key] = self.passed_ms + after_ms, padding
            write(bucket, key, *model[key])
        elif model.pop(key, None) is not None:
            bucket.remove(key, stored(bucket, key))

    def require_timer(self, number: int, timer_ms: int | None) -> None:
        earliest_ms = min((due_ms for due_ms, _ in self.states[number].values()), default=None)
        assert self.spark.timers(number) == ([] if timer_ms is None else [timer_ms])
        if timer_ms is None or earliest_ms is None:
            assert timer_ms == earliest_ms
        else:
            assert self.passed_ms < timer_ms <= earliest_ms

    def require_size(self, size: BucketSize, model: States) -> None:
        sizes = [len(key.encode()) + len(encoded(*state)) for key, state in model.items()]
        assert size[:3] == (0, len(sizes), sum(sizes))
        largest = max(sizes, default=0)
        assert largest * 7 / 8 <= size.largest <= largest

    @rule(by=st.integers(1, 40))
    def time_passes(self, by: int) -> None:
        self.passed_ms += by

    @rule()
    def commit(self) -> None:
        self.spark.commit()
        self.committed = copy.deepcopy(self.states)

    @rule()
    def abort(self) -> None:
        self.spark.abort()
        self.states = copy.deepcopy(self.committed)

    @invariant()
    def has_what_the_model_has(self) -> None:
        for number, model in self.states.items():
            found = contents(self.spark.bucket(number, self.passed_ms))
            assert found == {key: encoded(*state) for key, state in model.items()}


class MemoryUse(AnyUse):
    """A task commits or not."""

    make = staticmethod(lambda folder: Spark(MemoryBackend()))


class LogUse(AnyUse):
    """With the accidents that only a log with a copy can have."""

    make = staticmethod(SparkWithCopies)

    @property
    def copies(self) -> SparkWithCopies:
        return cast("SparkWithCopies", self.spark)

    @rule()
    def the_copy_is_behind(self) -> None:
        self.copies.commit_without_copy()
        self.committed = copy.deepcopy(self.states)

    @rule()
    def the_copy_is_ahead(self) -> None:
        self.copies.abort_after_copy()
        self.states = copy.deepcopy(self.committed)

    @precondition(lambda self: any(self.states.values()))
    @rule()
    def the_copy_is_gone(self) -> None:
        self.copies.move()
        self.committed = copy.deepcopy(self.states)


# Two small chunks, which have at most two entries; a call merges at most five.
SHORT_LOG = {"MOST_SMALL": 2, "_MOST_CHUNKS": 4, "_SPREAD": 1, "_LEAST_MERGED": 1, "_ENTRIES_PER_CALL": 5}
SHORT_LOG["_SLACK"] = 4


class ShortLogUse(LogUse):
    """Most calls clean or merge, copies have several runs, and each log is read without its index too."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for name, value in SHORT_LOG.items():
            self.patch.setattr(log_index, name, value)
        self.patch.setattr(bucket_copy, "SMALL", 0)

    def teardown(self) -> None:
        self.patch.undo()
        super().teardown()

    @invariant()
    def a_reader_of_the_log_finds_the_same(self) -> None:
        """As every release reads it: a chunk for each number between the first and the next one."""
        for number, model in self.states.items():
            handle = self.spark.handle
            handle.setGroupingKey(number)
            kept = handle.getValueState(HEAD_NAME, "").get()
            head = Head() if kept is None else Head(*kept)
            log = {
                seq: decode_chunk(value[0])
                for (seq,), value in handle.getMapState(LOG_NAME, "", "").iterator()
            }
            assert sorted(log) == list(range(head.first_seq, head.next_seq))
            newest: dict[str, bytes] = {}
            for seq in sorted(log):
                newest |= log[seq]
            found = {key: state for key, state in newest.items() if state != GONE}
            assert found == {key: encoded(*state) for key, state in model.items()}
            assert (head.live, head.logged) == (len(found), sum(map(len, log.values())))
            newest_sizes = [len(log[seq]) for seq in sorted(log, reverse=True)]
            assert len(list(takewhile(lambda size: size <= 2, newest_sizes))) <= 2


TestMemoryUse = MemoryUse.TestCase
TestLogUse = LogUse.TestCase
TestShortLogUse = ShortLogUse.TestCase
TestMemoryUse.settings = TestLogUse.settings = settings(deadline=None, stateful_step_count=30)
TestShortLogUse.settings = TestLogUse.settings
