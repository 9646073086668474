"""What the control plane starts processes with: the configuration of a driver, and requests to batch jobs.

The configuration, `control/<stream>.config.json`, is written at a launch and read once by the driver. A
request is one JSON document, with the configuration of a stream as a driver would be started now. Its type is
a parameter, so that a job reads it into a struct that derives more from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from stateward.contract.reading import read_as, require_version
from stateward.contract.state_care import MAX_PARTITION_BYTES

CONFIG_VERSION = 1
_CLOCKS = ("event", "processing")
_EMISSIONS = ("watermark", "eager")
WATERMARK_POLICIES = ("min", "max")
_TICK_MODES = ("auto", "wall_clock", "record", "off")


class TickConfig(Struct, frozen=True):
    """How timeouts are kept going on a quiet topic: `auto`, `wall_clock`, `record` or `off`."""

    mode: str
    interval_ms: int

    def __post_init__(self) -> None:
        if self.mode not in _TICK_MODES:
            raise ValueError(f"expected mode to be one of {', '.join(_TICK_MODES)}, found {self.mode!r}")


class LeaseConfig(Struct, frozen=True):
    """Where the lease is, how long it holds, and how often it is renewed (ms)."""

    uri: str
    ttl_ms: int
    renew_ms: int

    def __post_init__(self) -> None:
        if self.renew_ms * 2 > self.ttl_ms:
            raise ValueError(f"ttl_ms {self.ttl_ms} must be at least twice renew_ms {self.renew_ms}")


class LookupConfig(Struct, frozen=True):
    """Where a table of a stream's lookups is, its key column, and the column of each field of a row."""

    uri: str
    key: str
    columns: Mapping[str, str]


class DriverConfig(Struct, frozen=True, kw_only=True):
    """One launch of one stream. Durations in milliseconds, places as URIs.

    `checkpoint_uri` is the root of the stream's generations in the document; a driver puts the current
    generation's folder in its place.
    """

    version: int = CONFIG_VERSION
    stream: str
    run_id: str
    bootstrap_servers: str
    only_topic: str | UnsetType = field(default=UNSET, name="topic")
    """That of a stream that reads one; one that reads several has `topics` in its place."""
    several_topics: tuple[str, ...] | UnsetType = field(default=UNSET, name="topics")
    topic_partitions: int
    create_topics: bool
    tick_topic: str
    starting_offsets: str
    max_records_per_batch: int
    target_batch_ms: int = 0  # for any time, as in a document of an earlier release
    trigger_interval_ms: int
    allowed_lateness_ms: int
    not_before: datetime
    max_ahead_ms: int
    max_record_bytes: int
    tick: TickConfig
    clock: str
    emission: str
    timeout_jitter_ms: int
    logic: Mapping[str, Any]
    state_partitions: int
    state_buckets: int
    state_cache_dir: str | None = None
    growth_window_ms: int = 3_600_000
    leave_deadline_ms: int = 0
    """How long the driver may take to drain before it ends itself; 0 for any time, as before it had one."""
    spark_conf: Mapping[str, str]
    lease: LeaseConfig
    checkpoint_uri: str
    status_uri: str
    control_uri: str
    forgotten_uri: str = ""
    """The register of forgotten keys; empty in a document of an earlier release."""
    tables: Mapping[str, str]
    kafka_sink: Mapping[str, str] | UnsetType = UNSET
    """The topic of each table whose rows go to Kafka too; absent where there is none."""
    lookups: Mapping[str, LookupConfig] = {}
    lateness_by_topic_ms: Mapping[str, int] = {}
    """Of topics with a watermark of their own, where it is not `allowed_lateness_ms`."""
    watermark_policy: str = "min"
    """The watermark of several: that of the topic that is behind (`min`) or ahead (`max`)."""

    def __post_init__(self) -> None:
        for name, allowed in (
            ("clock", _CLOCKS),
            ("emission", _EMISSIONS),
            ("watermark_policy", WATERMARK_POLICIES),
        ):
            if (found := getattr(self, name)) not in allowed:
                raise ValueError(
                    f"stream {self.stream}: expected {name} to be one of {', '.join(allowed)}, "
                    f"found {found!r}: correct `{name}` in the stream's YAML"
                )
        if not self.topics:
            raise ValueError(f"topics: expected names of topics, found {list(self.topics)!r}")

    @property
    def topics(self) -> tuple[str, ...]:
        """The data topics."""
        if self.several_topics is not UNSET:
            return self.several_topics
        return () if self.only_topic is UNSET else (self.only_topic,)

    @property
    def sink_topics(self) -> Mapping[str, str]:
        """The topic of each table whose rows go to Kafka too."""
        return {} if self.kafka_sink is UNSET else self.kafka_sink

    @property
    def topic(self) -> str:
        """The data topic of a stream that reads one; of several the first."""
        return self.topics[0]


REQUEST_VERSION = 1

C = TypeVar("C", bound=DriverConfig)
Request = TypeVar("Request", bound=Struct)


class KeptOutcome(Struct, frozen=True):
    """The table `reconciliations`, and the id of a reconciliation, which is written once at all tries."""

    uri: str
    run_id: str


class RecomputeRequest(Struct, Generic[C], frozen=True, kw_only=True):
    """One recomputation of a stream's rows; times in milliseconds since 1970 UTC.

    Attributes:
        config: The stream, as a driver would be started now.
        from_ms: First time of the range.
        to_ms: Its end, which is not part of it.
        chain_ms: The stream's longest chain of timeouts.
        raw_uri: The table `raw_events`.
        into_uri: Folder of the recomputed tables.
        report_uri: Where the report goes.
        with_late: Whether events count that came too late for the stream.
        compare: Whether to compare with the live tables.
        record: Where the outcome of the comparison is kept; None if it is not.
    """

    version: int = REQUEST_VERSION
    config: C
    from_ms: int
    to_ms: int
    chain_ms: int
    raw_uri: str
    into_uri: str
    report_uri: str
    with_late: bool = False
    compare: bool = False
    record: KeptOutcome | None = None


class CountedFailures(Struct, frozen=True):
    """How often a driver was started again after a failure, and since when that is counted."""

    count: int
    since: datetime


class TracePlaces(Struct, frozen=True):
    """Where `forget` looks beside the stream's own checkpoints, savepoints and tables.

    Attributes:
        tables_uri: The folder of all tables.
        texts: Folders and files with pages, results and logs, in which a key is erased.
        rebuilt: Folders and files that are removed: a run of the DAG makes them again.
        others: The checkpoints of other streams that read the same topics, with their leases.
    """

    tables_uri: str
    texts: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


class OperationRequest(Struct, Generic[C], frozen=True, kw_only=True):
    """One operation on a stream's state.

    Attributes:
        operation: Its id, which begins with a UTC stamp.
        asked_by: Who asked, if it may ask again after it has died; else empty.
        verb: What is to be done.
        arguments: The verb's fields, all of them.
        dry_run: Whether only to say what would happen.
        takes_lease: Whether the stream must not run meanwhile.
        needs_spark: Whether there is a Spark to work with.
        config: The stream, as a driver would be started now.
        other: Another stream that the operation is about, likewise.
        yaml: The stream's YAML.
        launched_uri: The configuration of the stream's last driver.
        savepoints_uri: Folder of the stream's savepoints.
        raw_uri: The table `raw_events`.
        exports_uri: The table `state_exports`; empty in a request of an earlier release.
        folder_uri: Folder of the operation.
        operations_uri: Folder of all operations on the stream; empty if it is not known.
        logs_uri: Folder of their logs; likewise.
        personal_arguments: Names of arguments that are masked in the result.
        seed_roots: URIs of the folders below which a seed's table may lie.
        state_limits: Sizes of the state at which a person should look at it.
        measure_limits: `health.limits` of what is measured of a state, by the measure's name.
        failures: None if no failure was counted.
        partition_bytes: The largest partition that is advised.
        day_s: How long a day of the stream's care is, seconds.
        secrets: Arguments that refer to a value: a file in the operation's folder, erased in the end.
        places: Where else a key may be; only of `forget`.
    """

    version: int = REQUEST_VERSION
    operation: str
    asked_by: str = ""
    verb: str
    arguments: Mapping[str, Any]
    dry_run: bool
    takes_lease: bool
    needs_spark: bool
    config: C
    other: C | None = None
    yaml: str
    launched_uri: str
    savepoints_uri: str
    raw_uri: str
    folder_uri: str
    exports_uri: str = ""
    operations_uri: str = ""
    logs_uri: str = ""
    personal_arguments: tuple[str, ...] = ()
    seed_roots: tuple[str, ...] = ()
    state_limits: Mapping[str, int] = {}
    measure_limits: Mapping[str, Mapping[str, float | None]] = {}
    failures: CountedFailures | None = None
    partition_bytes: int = MAX_PARTITION_BYTES
    day_s: float = 86_400.0
    secrets: tuple[str, ...] = ()
    places: TracePlaces | None = None


class TrialRequest(Struct, Generic[C], frozen=True, kw_only=True):
    """One trial, by the options of docs/try.md; with `files`, by topic, on their lines as of `now_ms`."""

    version: int = REQUEST_VERSION
    config: C
    rate: float = 10.0
    speed: float = 1.0
    keys: int = 5
    values: Mapping[str, tuple[str, ...]] = {}
    seconds: float | None = None
    rows: int = 20
    records: int | None = None
    files: Mapping[str, str] = {}
    now_ms: int = 0


def read_request(
    kind: type[Request], document: Mapping[str, Any] | None, origin: str, remedy: str
) -> Request:
    """The request in a document.

    Args:
        kind: Which.
        document: What was read; None if nothing was there.
        origin: Where, for the error.
        remedy: What to do about another version.

    Raises:
        InvalidDocumentError: It is not there, of another version, or a field is missing or of another type.
    """
    require_version(document, REQUEST_VERSION, origin, remedy)
    found = document or {}
    require_version(found.get("config"), CONFIG_VERSION, f"{origin}: config", remedy)
    return read_as(kind, found, origin)
