"""All places of a key beside the state: tables, records, savepoints, earlier checkpoints, documents."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from deltalake import CommitProperties, DeltaTable
from msgspec import structs

from stateward.contract import names, storage
from stateward.contract.lease import read_lease
from stateward.contract.privacy.forgotten import MARK, OF_KEY, RecordsOf, spans_of
from stateward.contract.process_identity import host_identity
from stateward.contract.process_output import READY
from stateward.contract.requests import TracePlaces
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import Generation
from stateward.runtime.kafka import reader
from stateward.runtime.lease.lease import utc_now
from stateward.runtime.sink.fence import epoch_in
from stateward.state.errors import StateError
from stateward.state.forget import delta_purge, delta_rows, documents
from stateward.state.forget.delta_rows import Row, Rule
from stateward.state.forget.kafka_records import Cluster, HeldRecords, held_records
from stateward.state.forget.subject import Subject
from stateward.state.forget.table_rules import COUNTED, own_rule, rule_of
from stateward.state.operation.journal import Journal
from stateward.state.verbs import verb_class
from stateward.state.verbs.prune import remove_generation

if TYPE_CHECKING:
    from stateward.state.operation.context import Context

_WAIT_S, _POLL_S = 120.0, 0.2
_WITH_RECORDS = (names.RAW_EVENTS, *COUNTED)
_MARKS = ("stream", "generation", "batch_id")

Found = Mapping[str, Sequence[Row]]


class Places:
    """The places of one key.

    Args:
        context: What the operation works with.
        subject: The key.
    """

    def __init__(self, context: Context, subject: Subject) -> None:
        self._context = context
        self._subject = subject
        self._config = context.request.config
        self._places = context.request.places or TracePlaces("")

    def held(self) -> list[HeldRecords]:
        """The records of the key that Kafka holds, by topic.

        Raises:
            BrokerAwayError: Kafka does not answer.
        """
        cluster = cast(Cluster, self._context.kafka())
        read = partial(reader.read, self._config.bootstrap_servers)
        return list(held_records(cluster, read, self._config.topics, self._subject))

    def rows(self) -> dict[str, list[Row]]:
        """The rows of the key in the current version of each table."""
        found: dict[str, list[Row]] = {}
        for name, uri, rule in self._rules({}):
            more = (*_MARKS, "topic", "partition", "offset") if name in _WITH_RECORDS else ()
            found[name] = delta_rows.find(DeltaTable(uri), rule, more)
        return found

    def records(self, held: Iterable[HeldRecords], found: Found) -> dict[str, RecordsOf]:
        """The records of the key, in Kafka and in tables, as the register has them."""
        offsets: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        ids: dict[str, str] = {}
        until: dict[str, Mapping[int, int]] = {}
        for one in held:
            ids[one.topic], until[one.topic] = one.topic_id, one.until
            for partition, spans in one.offsets.items():
                for first, last in spans:
                    offsets[one.topic][partition].update(range(first, last + 1))
        for name in _WITH_RECORDS:
            for row in found.get(name, ()):
                if row["partition"] is not None and row["offset"] is not None:
                    offsets[row["topic"]][row["partition"]].add(row["offset"])
        return {
            topic: RecordsOf(
                topic_id=ids.get(topic, ""),
                offsets={
                    str(partition): spans_of(some) for partition, some in sorted(offsets[topic].items())
                },
                until={str(partition): end for partition, end in until.get(topic, {}).items()},
            )
            for topic in self._config.topics
        }

    def counted(self, found: Found) -> dict[str, dict[str, dict[str, int]]]:
        """How many rows of the tables with counts are the key's, by stream and query, and by batch."""
        counts: dict[str, dict[str, dict[str, int]]] = {}
        for name in COUNTED:
            for row in found.get(name, ()):
                by_batch = counts.setdefault(name, {}).setdefault(f"{row['stream']}/{row['generation']}", {})
                by_batch[str(row["batch_id"])] = by_batch.get(str(row["batch_id"]), 0) + 1
        return counts

    def wait_for_others(self) -> None:
        """Wait for batches of other streams that were planned before the register had the key.

        Later ones leave its records out. A stream that does not run plans its last batch again.

        Raises:
            StateError: A batch does not end in time.
        """
        deadline = time.monotonic() + _WAIT_S
        for root, lease_uri in self._places.others:
            checkpoint = Checkpoint(generations.current(root).uri)
            batch = checkpoint.last_planned()
            while checkpoint.last_committed() < batch and _is_held(lease_uri):
                if time.monotonic() > deadline:
                    raise StateError(
                        f"stream {self._context.stream}: expected batch {batch} in {root} to end within "
                        f"{_WAIT_S:.0f} s, which may still write records of the key. Run it again "
                        "once that stream "
                        "commits batches."
                    )
                time.sleep(_POLL_S)

    def remove_rows(self, records: Mapping[str, RecordsOf]) -> None:
        """Remove the rows of the key, the files that had them, and their statistics."""
        for name, uri, rule in self._rules(records):
            self._context.report("tables", f"removing the key from {name}")
            delta_rows.remove(uri, rule, partial(self._commit, name))
            delta_purge.purge(uri, self._subject, rule)
        self._context.report("tables", READY)

    def _commit(self, name: str, table: DeltaTable) -> CommitProperties:
        own = name in self._config.tables
        transactions = [epoch_in(table, self._context.stream, self._context.check)] if own else None
        return CommitProperties(custom_metadata={MARK: OF_KEY}, app_transactions=transactions)

    def _rules(self, records: Mapping[str, RecordsOf]) -> Iterable[tuple[str, str, Rule]]:
        """Name, address and rule of each table that exists and may have the key."""
        until = {topic: {int(p): end for p, end in one.until.items()} for topic, one in records.items()}
        declared = {output.table.name: output.table for output in self._context.job.outputs}
        addresses = {
            **{name: f"{self._places.tables_uri}/{name}" for name in names.PLATFORM_TABLES},
            names.RAW_EVENTS: self._context.request.raw_uri,
            **self._config.tables,
        }
        for name, uri in addresses.items():
            table = declared.get(name)
            rule = (
                own_rule(table, self._subject)
                if table is not None
                else rule_of(name, self._subject, self._context.stream, self._config.topics, until)
            )
            if rule is not None and DeltaTable.is_deltatable(uri):
                yield name, uri, rule

    def remove_generations(self, current: Generation) -> None:
        """Remove all earlier checkpoints, and local copies of states."""
        root = current.root
        present = storage.list_names(root)
        for number in range(1, current.number):
            remove_generation(root, number, present)
        if (folder := self._config.state_cache_dir) is not None:
            for name in storage.list_names(f"file://{folder}"):
                storage.delete(f"file://{folder}/{name}")

    def erase(self, keep: Collection[str]) -> None:
        """Remove what a run makes again, operations that name the key, and the key in other texts."""
        request = self._context.request
        for uri in self._places.rebuilt:
            storage.delete(uri)
        if request.operations_uri:
            documents.remove_operations(request.operations_uri, request.logs_uri, self._subject, keep)
        for uri in self._places.texts:
            documents.erase_in(uri, self._subject)

    def savepoint(self, current: Generation) -> str:
        """Make a savepoint in place of those that were removed; returns its id."""
        request = self._context.request
        arguments = {"reason": "in place of those from before a key was forgotten"}
        context = replace(
            self._context,
            generation=current,
            request=structs.replace(request, arguments=arguments, verb="savepoint"),
            journal=Journal(f"{request.folder_uri}/savepoint.json", self._context.clock),
        )
        verb_class("savepoint")(context).run()
        return request.stamp


def _is_held(lease_uri: str) -> bool:
    lease = read_lease(lease_uri)
    return lease is not None and lease.holds(utc_now(), host_identity())
