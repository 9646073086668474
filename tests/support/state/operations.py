"""State operations on what a launch has left, carried out as the job does, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stateward.control.jobs.verbs import arguments_of, verb_of
from stateward.runtime.api.config import parse_config
from stateward.state.job import perform
from stateward.state.operation.answer import Answer
from stateward.state.operation.request import Request
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import FRAUD_WATCH, Launch


def new_launch(tmp_path: Path, broker: RunningBroker, name: str) -> Launch:
    folder = tmp_path / name
    folder.mkdir()
    launch = Launch(folder, broker, name, partitions=2, stream=FRAUD_WATCH)
    broker.create_topic(launch.topic, launch.partitions)
    return launch


def operate(
    launch: Launch, verb: str, *, dry_run: bool = False, other: Launch | None = None, **arguments: Any
) -> Answer:
    """A state operation on what the launch has left."""
    return perform(request_of(launch, verb, dry_run=dry_run, other=other, **arguments))


def request_of(
    launch: Launch, verb: str, *, dry_run: bool = False, other: Launch | None = None, **arguments: Any
) -> Request:
    """The request of one; ``other`` is the stream that it is about, too."""
    operation = f"20261122T02450{len(list(launch.folder.glob('op-*')))}Z-{verb}"
    folder = launch.folder / f"op-{operation}"
    folder.mkdir()
    document = launch.document(operation)
    return Request(
        operation=operation,
        verb=verb,
        arguments=arguments_of(verb_of(verb), arguments),
        dry_run=dry_run,
        takes_lease=verb_of(verb).takes_lease,
        needs_spark=verb_of(verb).needs_spark,
        config=parse_config(document, "test"),
        yaml="",
        launched_uri=launch.uri("none.json"),
        savepoints_uri=launch.uri("savepoints"),
        raw_uri=launch.uri("tables", "raw_events"),
        exports_uri=launch.uri("tables", "state_exports"),
        folder_uri=f"file://{folder}",
        state_limits={},
        seed_roots=(f"file://{launch.folder}",),
        personal_arguments=tuple(field.name for field in verb_of(verb).fields if field.is_personal),
        other=None if other is None else parse_config(other.document(operation), "test"),
    )
