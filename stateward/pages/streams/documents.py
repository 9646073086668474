"""Reads the documents of the page. All are small, so that a page that stays open costs little."""

from __future__ import annotations

import functools
import logging
from itertools import groupby
from pathlib import Path

from stateward.contract.reading import InvalidDocumentError
from stateward.contract.storage import exists, list_names, read_bytes, sizes_below
from stateward.control.reconcile.observe import observe, read_supervisor, thresholds_of
from stateward.control.releases.release import upgrade_available
from stateward.pages.access import MayRead, any_dag, dags_of_operation, stream_dag
from stateward.pages.link import Link
from stateward.pages.streams.history import Sample, samples_of
from stateward.pages.streams.view import Documents
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_specs
from stateward.project.spec_problems import Problem
from stateward.rendering import page_address

_LOG = logging.getLogger(__name__)
_NOT_AS_DESCRIBED = "its documents do not hold what docs/architecture.md says: {}"


def read_streams(settings: Settings, *, past: bool = True, readable: MayRead = any_dag) -> list[Documents]:
    """Read the documents of every stream that has a YAML file. One bad file never hides the others.

    Args:
        settings: The installation's settings.
        past: Whether to read the history and list reports, too, which takes longer than all the rest.
        readable: Which DAGs the user may read; other streams are skipped.
    """
    specs, problems = known_specs(settings.streams)
    read = functools.partial(_documents, settings, readable, past=past)
    found = [read(spec.stream, spec, ()) for spec in specs if readable(stream_dag(spec.stream))]
    for file, of_file in groupby(problems, key=lambda problem: problem.file):
        stream, said = Path(file).stem, tuple(str(problem) for problem in of_file)
        if readable(stream_dag(stream)):
            found.append(read(stream, None, said))
    return found


def known_specs(folder: Path) -> tuple[list[StreamSpec], list[Problem]]:
    """Read every stream's YAML, and its problems; cached until a file changes.

    Args:
        folder: Where the files are.
    """
    # Parsing YAML takes longer than everything else together.
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return _specs_of(
        folder, tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    )


@functools.lru_cache(maxsize=2)
def _specs_of(
    folder: Path, files: tuple[tuple[str, int, int], ...]
) -> tuple[list[StreamSpec], list[Problem]]:
    return load_specs(folder)


def _documents(
    settings: Settings,
    readable: MayRead,
    stream: str,
    spec: StreamSpec | None,
    problems: tuple[str, ...],
    *,
    past: bool,
) -> Documents:
    layout = Layout.of(settings)
    documents = Documents(
        stream=stream,
        description=spec.description if spec else "",
        limits=thresholds_of(spec) if spec else None,
        links=_links(settings, readable, stream, spec) if past else (),
        samples=_history(layout, stream) if past else (),
        problems=problems,
    )
    try:
        seen = observe(layout, stream)
        release = seen.control.release if seen.control else None
        return Documents(
            **{
                **vars(documents),
                "seen": seen,
                "upgrade": tuple(upgrade_available(release, spec, settings)) if spec and past else (),
                "supervisor": read_supervisor(layout, stream),
                "problems": (*problems, *map(_NOT_AS_DESCRIBED.format, seen.status_errors)),
            }
        )
    except (InvalidDocumentError, OSError) as error:
        return Documents(**{**vars(documents), "problems": (*problems, str(error))})


def _history(layout: Layout, stream: str) -> tuple[Sample, ...]:
    try:
        return samples_of((read_bytes(layout.history_uri(stream)) or b"").decode(errors="replace"))
    except OSError as error:
        # The page is shown without charts then.
        _LOG.warning("stream %s: its history cannot be read: %s", stream, error)
        return ()


def _links(settings: Settings, readable: MayRead, stream: str, spec: StreamSpec | None) -> tuple[Link, ...]:
    layout, name = Layout.of(settings), settings.dag_id(f"stream_{stream}")
    dag = Link("DAG", _to(page_address.dag(name)), name, outer=True)
    try:
        more = [_newest_operation(layout, readable, stream), _newest_validation(layout, spec)]
    except OSError as error:
        _LOG.warning("stream %s: its reports cannot be listed: %s", stream, error)
        more = []
    quality = [Link("Quality", _to(page_address.QUALITY_PAGE), "pass rates and failures")]
    return (dag, *(link for link in more if link), *(quality if spec and spec.quality else ()))


def _to(address: str) -> str:
    return page_address.relative(address, page_address.STREAMS_PAGE)


def _newest_operation(layout: Layout, readable: MayRead, stream: str) -> Link | None:
    for name in sorted(list_names(layout.operation_uri(stream, "")), reverse=True):
        dags = dags_of_operation(f"{stream}/{name}/index.html")
        if dags and all(map(readable, dags)) and exists(f"{layout.operation_uri(stream, name)}/index.html"):
            return Link("State report", _to(page_address.operation(stream, name)), name)
    return None


def _newest_validation(layout: Layout, spec: StreamSpec | None) -> Link | None:
    if spec is None or spec.quality is None:
        return None
    # validations/<suite>/<run>/<time>/<batch>.html, and a suite is named after its table
    pages = [
        f"validations/{suite}/{page}"
        for suite in spec.quality.tables
        for page in sizes_below(f"{layout.data_docs_uri}/validations/{suite}")
        if page.endswith(".html") and page.count("/") == 2
    ]
    newest = max(pages, key=lambda page: page.split("/")[3], default=None)
    if newest is None:
        return None
    return Link("Data Docs", _to(page_address.report(newest)), newest.split("/")[1])
