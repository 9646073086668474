"""Access to pages: a user who may read all DAGs of a page may read the page.

The DAG of a page about a stream is the stream's; of a page about shared tables, the one that validates them.
An operation's page also has the DAG of its verb.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stateward.contract.names import SHARED_TABLES
from stateward.control.jobs.verbs import VERBS
from stateward.project.spec import SHARED, StreamSpec

MayRead = Callable[[str], bool]
"""Whether a DAG may be read, by its name without the prefix."""

CARE = "care"
"""Stands for a verb in the name of the folder with the page of a run of `state_<stream>`."""

_OPERATION = re.compile(r"(?P<stream>[a-z][a-z0-9_]*)/\d{8}T\d{6}Z-(?P<verb>[a-z]+)(-\d+)?/index\.html")
_REPORT = re.compile(r"validations/[a-z0-9_]+/(?P<stream>[a-z][a-z0-9_]*?)_v\d+-\d+_[^/]*/[^/]+/[^/]+\.html")
_SUITE = re.compile(r"expectations/(?P<table>[a-z0-9_]+)\.html")


def any_dag(dag_id: str) -> bool:
    """Allow everything, for readers that are programs."""
    return True


def stream_dag(stream: str) -> str:
    """Return the DAG of pages about a stream."""
    return f"quality_{SHARED}" if stream == SHARED else f"stream_{stream}"


def dags_of_operation(path: str) -> list[str] | None:
    """Return the DAGs of an operation's page.

    Args:
        path: The page's path below the folder of all operations.

    Returns:
        Their ids; None if it is no page of an operation.
    """
    found = _OPERATION.fullmatch(path)
    if found and found["verb"] == CARE:
        return [stream_dag(found["stream"]), f"state_{found['stream']}"]
    verb = VERBS.get(found["verb"]) if found else None
    return [stream_dag(found["stream"]), verb.dag_id] if found and verb else None


def dags_of_report(path: str, specs: Iterable[StreamSpec]) -> list[str] | None:
    """Return the DAGs of a page of Data Docs: that of its stream; for the index, those of all streams.

    Args:
        path: The page's path below the folder of Data Docs.
        specs: All streams.

    Returns:
        Their ids; None if there can be no such page.
    """
    if found := _REPORT.fullmatch(path):
        return [stream_dag(found["stream"])]
    validated = [spec for spec in specs if spec.quality]
    if found := _SUITE.fullmatch(path):
        table = found["table"]
        owners = [one.stream for one in validated if table in one.tables]
        owners += [SHARED] if table in SHARED_TABLES else []
        # A suite whose table no longer has a stream needs the same DAGs as the index.
        if owners:
            return [stream_dag(stream) for stream in owners]
    elif path != "index.html":
        return None
    return [*(stream_dag(spec.stream) for spec in validated), stream_dag(SHARED)]
