"""Addresses of pages in Airflow's web server: the one place that makes them. Pure.

An address is a path below Airflow's base URL, such as `/dags/quality_shared`. Pages link to each other by
`relative`, which works below any prefix and behind any proxy. Airflow's own pages need `on_server`; messages,
which are read elsewhere, need `public`.
"""

from __future__ import annotations

import posixpath
from urllib.parse import quote, urlencode, urlsplit

STREAMS = "/stateward/streams"
QUALITY = "/stateward/quality"
DATA_DOCS = "/stateward/data-docs"
OPERATIONS = "/stateward/operations"
SPARK = "/stateward/spark"
METRICS = "/stateward/metrics"

STREAMS_PAGE = f"{STREAMS}/index.html"
QUALITY_PAGE = f"{QUALITY}/index.html"
DATA_DOCS_PAGE = f"{DATA_DOCS}/index.html"


def dag(dag_id: str) -> str:
    """Return the address of a DAG."""
    return f"/dags/{quote(dag_id, safe='')}"


def dag_run(dag_id: str, run_id: str) -> str:
    """Return the address of a run."""
    return f"{dag(dag_id)}/runs/{quote(run_id, safe='')}"


def stream(name: str) -> str:
    """Return the address of a stream on the operator's page."""
    return f"{STREAMS_PAGE}#{quote(name, safe='')}"


def table(stream: str, name: str, **more: str | int) -> str:
    """Return the address of a table's quality page; `more` are further parameters, such as `days`."""
    return f"{QUALITY}/table.html?{urlencode({'stream': stream, 'table': name, **more})}"


def report(docs_path: str) -> str:
    """Return the address of a validation's report, by its path below the folder of Data Docs."""
    return f"{DATA_DOCS}/{quote(docs_path)}"


def operation(stream: str, name: str) -> str:
    """Return the address of an operation's result page."""
    return f"{OPERATIONS}/{quote(stream)}/{quote(name)}/index.html"


def spark_ui(stream: str) -> str:
    """Return the address of the UI of a stream's driver."""
    return f"{SPARK}/{stream}/"


def relative(address: str, here: str) -> str:
    """Return the address of a page as the page `here` links to it."""
    folder, name = posixpath.split(_path(address))
    way = posixpath.relpath(folder, posixpath.dirname(_path(here)))
    rest = address[len(_path(address)) :]
    return f"{name}{rest}" if way == "." and name else f"{way}/{name}{rest}"


def on_server(base_url: str, address: str) -> str:
    """Return the path of a page on the host of Airflow's base URL."""
    return f"{urlsplit(base_url).path.rstrip('/')}{address}"


def public(base_url: str, address: str) -> str:
    """Return the whole URL of a page below Airflow's base URL."""
    return f"{base_url.rstrip('/')}{address}"


def _path(address: str) -> str:
    """Return an address without what follows its path."""
    return urlsplit(address).path
