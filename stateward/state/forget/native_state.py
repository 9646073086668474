"""Writes the state of Spark's own operators into an empty checkpoint, without the rows of one key.

Spark's offline repartition reads all column families of a store as bytes and writes them again
(`StateRewriter`); between the two it lets a function change the rows. Here that function leaves out the rows
whose key has the forgotten one as a text. It is private in Spark 4.2, so only this module calls it.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateward.contract import storage
from stateward.contract.process_output import Report
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_build import unfinished
from stateward.state.files.checkpoint_copy import copy_file, paths_in
from stateward.state.files.checkpoint_integrity import ROCKSDB, examine
from stateward.state.reader.stores import Store, checkpoint_format, spark_errors_as, stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEY = "key_bytes"
_SCHEMAS = ("/_metadata/", "/_stateSchema/")
_WORD = 8
_FIRST = 0


class ForgetFailedError(StateError):
    """Spark could not rewrite the state; the source is unchanged."""


@dataclass(frozen=True)
class Rewritten:
    """Rows of a state, in all stores.

    Attributes:
        rows: Before.
        removed: Those of the key.
    """

    rows: int
    removed: int


def count(spark: SparkSession, checkpoint_uri: str, key: str) -> Rewritten:
    """Count the rows of the newest state, and those of a key; the stream may run.

    Raises:
        ForgetFailedError: The state cannot be read.
    """
    with spark_errors_as(ForgetFailedError, f"{checkpoint_uri}: its state could not be read"):
        return _total(_counted(spark, checkpoint_uri, Checkpoint(checkpoint_uri).last_committed(), key))


def rewrite(
    spark: SparkSession,
    source_uri: str,
    target_uri: str,
    key: str,
    report: Report = lambda step, what: None,
) -> Rewritten:
    """Write the newest state of a checkpoint without the rows of a key, as the first batch of another one.

    Args:
        spark: A session; no query may run on the source.
        source_uri: A drained checkpoint, which is only read.
        target_uri: Folder of the new one.
        key: The key, as a text.
        report: Called with ``write`` and ``prove``.

    Raises:
        ForgetFailedError: The state is not in RocksDB, or Spark failed; or the proof did.
    """
    drained = examine(source_uri)
    with spark_errors_as(ForgetFailedError, f"{source_uri}: its state could not be rewritten"):
        found = _counted(spark, source_uri, drained.batch_id, key)
        if found and drained.provider != ROCKSDB:
            raise ForgetFailedError(
                f"{source_uri}: expected state kept by {ROCKSDB}, found {drained.provider or 'nothing'}: "
                "Spark rewrites no other. Begin a new checkpoint, and fill its tables with "
                "`stateward backfill`"
            )
        total = _total(found)
        report("write", f"{total.rows:,} rows")
        with unfinished(target_uri, {"source": source_uri}):
            _begin(source_uri, target_uri, drained.batch_id)
            ids = None
            if found:
                with checkpoint_format(spark, source_uri):
                    ids = _run(spark, source_uri, target_uri, drained.batch_id, key)
            _commit(source_uri, target_uri, drained.batch_id, ids)
            report("prove", "every store")
            _prove(found, _counted(spark, target_uri, _FIRST, key), target_uri)
    return total


def _total(found: dict[Store, Rewritten]) -> Rewritten:
    return Rewritten(sum(one.rows for one in found.values()), sum(one.removed for one in found.values()))


def has_text(row: bytes, text: bytes) -> bool:
    """Whether one of the columns of Spark's row format (`UnsafeRow`) is a text.

    A column has a word of eight bytes with the offset of its text, from the row's start, and its length. The
    row may begin anywhere: the key of a session window has a length before it.
    """
    at = row.find(text)
    while at >= 0:
        end = at + len(text)
        padding = row[end : end + -len(text) % _WORD]
        if not padding.strip(b"\0") and any(
            _points_to(row, word, at, len(text)) for word in range(at % _WORD, at - _WORD + 1, _WORD)
        ):
            return True
        at = row.find(text, at + 1)
    return False


def _points_to(row: bytes, word: int, at: int, length: int) -> bool:
    """Whether a word of a row names a text of some length at a place."""
    size, offset = struct.unpack_from("<ii", row, word)
    begin = at - offset
    # Before the words is at least one for the nulls, and the texts come after all words.
    return bool(size == length and offset > 0 and offset % _WORD == 0 and 0 <= begin <= word - _WORD)


def _begin(source_uri: str, target_uri: str, batch_id: int) -> None:
    """The files of a new query whose first batch ends where the source's last one did."""
    for path in paths_in(source_uri):
        is_schema = path.startswith("state/") and any(part in path for part in _SCHEMAS)
        if is_schema and not path.endswith(".crc"):
            copy_file(path, source_uri, target_uri)
    storage.write_text(f"{target_uri}/metadata", json.dumps({"id": str(uuid.uuid4())}, separators=(",", ":")))
    text = storage.read_text(f"{source_uri}/offsets/{batch_id}")
    assert text is not None  # `examine` found it
    storage.write_text(f"{target_uri}/offsets/{_FIRST}", text)


def _commit(source_uri: str, target_uri: str, batch_id: int, ids: dict[str, Any] | None) -> None:
    text = storage.read_text(f"{source_uri}/commits/{batch_id}")
    assert text is not None  # `examine` found it
    version, _, document = text.partition("\n")
    found = json.loads(document)
    if "stateUniqueIds" in found:
        found["stateUniqueIds"] = ids or {}
    storage.write_text(
        f"{target_uri}/commits/{_FIRST}", f"{version}\n{json.dumps(found, separators=(',', ':'))}"
    )


def _run(
    spark: SparkSession, source_uri: str, target_uri: str, batch_id: int, key: str
) -> dict[str, list[list[str]]] | None:
    """Let Spark read the source and write the target; returns the ids in the names of the state's files."""
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import DataFrame as Frame

    context = spark.sparkContext
    gateway, jvm = context._gateway, context._jvm
    assert gateway is not None and jvm is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]

    class WithoutKey:
        """Scala's function from rows to rows."""

        def apply(self, rows: Any) -> Any:
            return _without(Frame(rows, spark), key)._jdf

        class Java:
            implements = ("scala.Function1",)

    session = spark._jsparkSession
    option = jvm.scala.Option
    rewriter = jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter(
        session,
        batch_id,
        _FIRST,
        target_uri,
        session.sessionState().newHadoopConf(),
        option.apply(source_uri),
        option.apply(WithoutKey()),
        option.empty(),
    )
    written = rewriter.run()
    if not written.isDefined():
        return None
    operators = jvm.scala.jdk.javaapi.CollectionConverters.asJava(written.get())
    return {str(operator): [list(ids) for ids in operators[operator]] for operator in operators}


def _without(rows: DataFrame, key: str) -> DataFrame:
    """The rows of a store without those of a key."""
    text = key.encode()

    def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keep = [not has_text(one, text) for one in batch.column(_KEY).to_pylist()]
            yield batch.filter(pa.array(keep, pa.bool_()))

    return rows.mapInArrow(kept, rows.schema)


def _counted(spark: SparkSession, uri: str, batch_id: int, key: str) -> dict[Store, Rewritten]:
    """Rows of each store, and how many of them are the key's."""
    found: dict[Store, Rewritten] = {}
    text = key.encode()
    with checkpoint_format(spark, uri):
        for store in stores(spark, uri):
            options = {**store.options, "batchId": str(batch_id), "_readAllColumnFamilies": "true"}
            rows = spark.read.format("statestore").options(**options).load(uri)
            counts = rows.select(_KEY).mapInArrow(_counter(text), "every long, hit long").collect()
            found[store] = Rewritten(sum(row["every"] for row in counts), sum(row["hit"] for row in counts))
    return found


def _counter(text: bytes) -> Any:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            hits = sum(has_text(one, text) for one in batch.column(0).to_pylist())
            yield pa.RecordBatch.from_pylist([{"every": batch.num_rows, "hit": hits}])

    return count


def _prove(before: dict[Store, Rewritten], after: dict[Store, Rewritten], target_uri: str) -> None:
    """Verify that each store has the rows that it had, but those of the key."""
    problems: Sequence[str] = [
        f"{after.get(store, Rewritten(0, 0)).rows} rows in {store.operator} {store.name}, expected "
        f"{one.rows - one.removed}"
        for store, one in before.items()
        if after.get(store) != Rewritten(one.rows - one.removed, 0)
    ]
    if problems:
        raise ForgetFailedError(
            f"{target_uri}: expected the state without one key, found {'; '.join(problems)}. The "
            "stream's state "
            "is unchanged; report this"
        )
