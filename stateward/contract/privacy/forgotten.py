"""The register of forgotten keys: a folder with a document for each, which is written once.

A document holds an HMAC of the key with the installation's secret (`STATEWARD_MASK_SECRET`, else the file
`mask-secret`), and not the key. It holds by offset where records of the key were, in Kafka and in
`raw_events`, so that every process that reads them again leaves them out, without the secret and without a
look into them.
"""

from __future__ import annotations

import hashlib
import hmac
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from stateward.contract import storage
from stateward.contract.reading import Time, as_json, read_as, require_version

VERSION = 1
MARK = "statewardRemoves"
"""In the log of a Delta table: a commit that removes rows on purpose, and writes those beside them again."""
OF_KEY, EXPIRED = "key", "expired"
"""Its values: rows of a forgotten key, whose files are gone; rows beyond the table's `max_age`."""

_REMEDY = "upgrade Stateward to the release that wrote it"

Span = tuple[int, int]
"""The first and the last of some offsets that follow each other."""


class RecordsOf(Struct, frozen=True):
    """The records of a key in one topic.

    Attributes:
        topic_id: Kafka's id of the topic; offsets of a topic that was created again mean other records. Empty
            if Kafka did not have the topic.
        offsets: By partition, in order.
        until: The end of each partition when the key was forgotten; later records are the key's new ones.
    """

    topic_id: str
    offsets: Mapping[str, tuple[Span, ...]]
    until: Mapping[str, int] = {}


class ForgottenKey(Struct, frozen=True, kw_only=True):
    """One key that a stream has forgotten.

    Attributes:
        operation: The operation that forgot it, and the document's name.
        stream: The stream.
        field: The field of the stream's key.
        digest: The HMAC of the key (`digest_of`).
        at: When.
        records: By topic.
        rows: Rows that were removed from the tables that streams share: by table, stream and query, and by
            batch.
    """

    version: int = VERSION
    operation: str
    stream: str
    field: str
    digest: str
    at: Time
    records: Mapping[str, RecordsOf] = {}
    rows: Mapping[str, Mapping[str, Mapping[str, int]]] = {}


def digest_of(secret: str, field: str, key: str) -> str:
    """Return the HMAC of a key, as 64 hexadecimal digits.

    Args:
        secret: The installation's.
        field: The field of the stream's key, so that a user and an account of one name differ.
        key: The key.
    """
    return hmac.new(secret.encode(), f"{field}\0{key}".encode(), hashlib.sha256).hexdigest()


def spans_of(offsets: Iterable[int]) -> tuple[Span, ...]:
    """Return offsets as spans, in order."""
    return _joined((offset, offset) for offset in offsets)


@dataclass(frozen=True)
class Spans:
    """Offsets of one partition.

    Attributes:
        spans: In order, none of which touches another.
    """

    spans: tuple[Span, ...] = ()
    _firsts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_firsts", tuple(first for first, _ in self.spans))

    def __bool__(self) -> bool:
        return bool(self.spans)

    def holds(self, offset: int) -> bool:
        """Whether an offset is one of them."""
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self.spans[at][1]

    def within(self, begin: int, end: int) -> Spans:
        """Those that have an offset at or after ``begin`` and before ``end``."""
        if begin >= end:
            return Spans()
        return Spans(tuple(span for span in self.spans if span[1] >= begin and span[0] < end))

    def after(self, offset: int) -> int:
        """The first offset, from the given one on, that is not one of them."""
        at = bisect_right(self._firsts, offset) - 1
        return self.spans[at][1] + 1 if at >= 0 and offset <= self.spans[at][1] else offset

    def before(self, offset: int) -> int:
        """The lowest offset from which on all up to the given one, exclusive, are among them."""
        at = bisect_right(self._firsts, offset - 1) - 1
        return self.spans[at][0] if at >= 0 and offset - 1 <= self.spans[at][1] else offset


class Register:
    """The documents in a folder; each is read once.

    Args:
        uri: The folder; empty for none.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._known: dict[str, ForgottenKey] = {}

    def keys(self) -> tuple[ForgottenKey, ...]:
        """All of them, the oldest first.

        Raises:
            InvalidDocumentError: A document is of a later release, or not one of ours.
            OSError: The storage cannot be read.
        """
        names = (
            sorted(name for name in storage.list_names(self._uri) if _is_document(name)) if self._uri else []
        )
        for name in names:
            if name not in self._known:
                self._known[name] = _read(f"{self._uri}/{name}")
        return tuple(self._known[name] for name in names)

    def has(self, operation: str) -> bool:
        """Whether an operation has written its document."""
        return storage.exists(f"{self._uri}/{operation}.json")

    def of(self, operation: str) -> ForgottenKey:
        """The document of an operation.

        Raises:
            InvalidDocumentError: There is none.
        """
        return _read(f"{self._uri}/{operation}.json")

    def add(self, key: ForgottenKey) -> None:
        """Write a document; it is there, whole, once this returns."""
        storage.write_json(f"{self._uri}/{key.operation}.json", as_json(key))

    def offsets(self, topic: str, topic_id: str | None = None) -> dict[int, Spans]:
        """Return the records of forgotten keys in a topic, by partition.

        Args:
            topic: The topic.
            topic_id: Its id, if known: those of an earlier topic of the name are left out.
        """
        found: dict[int, set[Span]] = {}
        for records in self._records(topic):
            if topic_id and records.topic_id and records.topic_id != topic_id:
                continue
            for partition, spans in records.offsets.items():
                found.setdefault(int(partition), set()).update(spans)
        return {partition: Spans(_joined(spans)) for partition, spans in found.items()}

    def _records(self, topic: str) -> Iterator[RecordsOf]:
        return (key.records[topic] for key in self.keys() if topic in key.records)


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def _is_document(name: str) -> bool:
    return name.endswith(".json")


def _read(uri: str) -> ForgottenKey:
    document = storage.read_json(uri)
    require_version(document, VERSION, uri, _REMEDY)
    return read_as(ForgottenKey, document or {}, uri)
