"""One operation on a stream's state.

    python stateward/state/job.py <URI of the request>
    spark-submit stateward/state/job.py <URI of the request>

Reports each step on standard output, one line a step, and writes `result.json` and `index.html` beside the
request. Exit codes: 0 done; 2 done, and something is broken or different; 1 refused or failed.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Python puts this file's folder on the path, whose modules would hide others of the same name.
    del sys.path[0]

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import structs

from stateward.contract import storage
from stateward.contract.process_identity import host_identity
from stateward.contract.process_output import JobExit
from stateward.contract.reading import iso
from stateward.runtime.api.config import ConfigError
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import PendingOperationError, PointerError
from stateward.runtime.kafka.broker import Broker, BrokerAwayError
from stateward.runtime.lease.lease import LeaseHeldError, utc_now
from stateward.runtime.sink.fence import CheckLease
from stateward.runtime.telemetry.batch_steps import begin_log, report_error, report_step
from stateward.state.compatibility.descriptor import with_buckets_of
from stateward.state.errors import StateError
from stateward.state.operation.answer import Answer
from stateward.state.operation.context import Context
from stateward.state.operation.journal import Journal
from stateward.state.operation.leased import lease_of, leased, unleased
from stateward.state.operation.request import Request, load_request
from stateward.state.pages.page import render
from stateward.state.savepoints.savepoint_catalog import SavepointCatalog
from stateward.state.verbs import verb_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REFUSALS = (StateError, LeaseHeldError, PendingOperationError, PointerError, BrokerAwayError, ConfigError)
_TERMINATED = 143
_WHILE_IT_RUNS = (
    "The stream runs. It has to be stopped for that; the DAG state_operations stops it and starts it again."
)

log = logging.getLogger("stateward.state")


def main(arguments: list[str]) -> int:
    """Carry the operation out and return its exit code."""
    begin_log()
    if len(arguments) != 1:
        log.error("usage: job.py <URI of the request>")
        return JobExit.FAILED
    try:
        request = load_request(arguments[0])
    except (StateError, ConfigError) as error:
        return report_error(error)
    began = utc_now()
    try:
        answer = perform(request)
    except _REFUSALS as error:
        # A retry after a refusal is another request, with its own values.
        request.erase_secrets()
        return _write_failure(request, began, "refused", error)
    except OSError as error:
        return _write_failure(request, began, "failed", _storage_error(request, error))
    except Exception as error:
        log.exception("stream %s: %s could not be done", request.config.stream, request.operation)
        return _write_failure(request, began, "failed", error)
    write_result(request, began, "done", "", answer)
    return JobExit.DONE if answer.is_good else JobExit.DIFFERENT


def perform(request: Request) -> Answer:
    """Carry out a request, under the stream's lease if the verb takes it.

    Raises:
        StateError: It cannot be done.
        LeaseHeldError: The stream runs, or another operation does.
        LeaseLostError: Another process took the lease.
        PendingOperationError: Another operation is unfinished.
    """
    config = request.config
    with _leased(request) as (check, runs):

        def report(part: str, what: str) -> None:
            if check is not unleased:
                check()
            report_step(part, what)

        generation = generations.current(config.checkpoint_uri)
        in_force = with_buckets_of(config, generation.uri)
        context = Context(
            request=structs.replace(request, config=in_force),
            generation=generation,
            catalog=SavepointCatalog(config.stream, request.savepoints_uri),
            journal=Journal(f"{request.folder_uri}/journal.json", utc_now),
            report=report,
            clock=utc_now,
            spark=cache(lambda: _session(context)),
            kafka=cache(lambda: Broker(config.bootstrap_servers)),
            runs=runs,
            check=check,
        )
        answer = verb_class(request.verb)(context).run()
    return replace(answer, lines=(*answer.lines, _WHILE_IT_RUNS)) if runs else answer


def _storage_error(request: Request, error: OSError) -> StateError:
    """Explain an error of the storage, such as a full disk, in terms of the operation."""
    return StateError(
        f"stream {request.config.stream}: {request.verb} could not go on, for a file could not be read or "
        f"written ({error}). The stream's current checkpoint is as it was. Free disk space, or repair what "
        "is named, and run it again."
    )


def _write_failure(request: Request, began: datetime, state: str, error: Exception) -> int:
    """Write the result of an operation that was not done, and return the exit code."""
    message = str(error) if isinstance(error, _REFUSALS) else f"{type(error).__name__}: {error}"
    try:
        write_result(request, began, state, message, None)
    except OSError:
        # The result may lie on the full disk; the reason is reported all the same.
        log.exception("stream %s: no result could be written", request.config.stream)
    return report_error(message)


@contextmanager
def _leased(request: Request) -> Iterator[tuple[CheckLease, bool]]:
    """Hold the lease; yields the check that raises when it is lost, and whether the stream runs.

    A dry run takes no lease; only then the stream may run.
    """
    if not request.takes_lease or request.dry_run:
        held = lease_of(request.config, request.operation).read() if request.takes_lease else None
        yield unleased, held is not None and held.holds(utc_now(), host_identity())
        return
    with leased(request.config, request.operation) as check:
        yield check, False


def _session(context: Context) -> SparkSession:
    from stateward.runtime.query.native_query import NATIVE_CONF
    from stateward.runtime.session import checkpoint_conf, create_session

    config = context.request.config
    return create_session(
        f"state {context.request.verb} {config.stream}",
        config.state_partitions,
        {
            **checkpoint_conf(context.generation.uri),
            **(NATIVE_CONF if isinstance(context.job, NativeJob) else {}),
            **config.spark_conf,
        },
    )


def write_result(request: Request, began: datetime, state: str, message: str, answer: Answer | None) -> None:
    """Write the result of an operation, for programs and for people.

    Args:
        request: The operation.
        began: When the operation began.
        state: ``done``, ``refused`` or ``failed``.
        message: Why it was not done.
        answer: Its answer, if it was done.
    """
    shown = Answer(()) if answer is None else answer
    result: dict[str, Any] = {
        "version": 1,
        "operation": request.operation,
        "verb": request.verb,
        "stream": request.config.stream,
        "arguments": request.shown_arguments,
        "dry_run": request.dry_run,
        "state": state,
        "message": message,
        "good": answer is not None and shown.is_good,
        "began_at": iso(began),
        "ended_at": iso(utc_now()),
        "lines": list(shown.lines),
        "listings": [asdict(listing) for listing in shown.listings],
        "data": dict(shown.data),
    }
    storage.write_json(f"{request.folder_uri}/result.json", result)
    storage.write_text(f"{request.folder_uri}/index.html", shown.whole_page or render(result))


if __name__ == "__main__":
    # So that the lease is released.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(_TERMINATED))
    sys.exit(main(sys.argv[1:]))
