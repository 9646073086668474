"""Which DAGs a page takes: whoever may read them may read it.

What is about a stream is for those who may read its DAG; the tables that streams share, for those who may
read the DAG that validates them. An operation's page takes the DAG of its verb, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stateward.contract.table_names import SHARED_TABLES
from stateward.control.jobs.verbs import VERBS
from stateward.project.spec import SHARED, StreamSpec

MayRead = Callable[[str], bool]
"""Whether a DAG may be read."""

_OPERATION = re.compile(r"(?P<stream>[a-z][a-z0-9_]*)/\d{8}T\d{6}Z-(?P<verb>[a-z]+)(-\d+)?/index\.html")
_REPORT = re.compile(r"validations/[a-z0-9_]+/(?P<stream>[a-z][a-z0-9_]*?)_v\d+-\d+_[^/]*/[^/]+/[^/]+\.html")
_SUITE = re.compile(r"expectations/(?P<table>[a-z0-9_]+)\.html")


def any_dag(dag_id: str) -> bool:
    """Let everything be read, as by a reader that is not a person."""
    return True


def stream_dag(stream: str) -> str:
    """The DAG whose readers may read what is about a stream."""
    return f"quality_{SHARED}" if stream == SHARED else f"stream_{stream}"


def dags_of_operation(path: str) -> list[str] | None:
    """The DAGs that the page of an operation takes.

    Args:
        path: Of the page, below the folder of all operations.

    Returns:
        Their ids; None if it is no page of an operation.
    """
    found = _OPERATION.fullmatch(path)
    verb = VERBS.get(found["verb"]) if found else None
    return [stream_dag(found["stream"]), verb.dag_id] if found and verb else None


def dags_of_report(path: str, specs: Iterable[StreamSpec]) -> list[str] | None:
    """The DAGs that a page of Data Docs takes: that of its stream; the list, those of all streams.

    Args:
        path: Of the page, below the folder of Data Docs.
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
        # A suite of a table that no stream has now: its page takes what the list takes.
        if owners:
            return [stream_dag(stream) for stream in owners]
    elif path != "index.html":
        return None
    return [*(stream_dag(spec.stream) for spec in validated), stream_dag(SHARED)]
