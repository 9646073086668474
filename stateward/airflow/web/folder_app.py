"""Serves a folder of pages, on any storage, in Airflow's UI, each to users who may read its DAGs."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any

from stateward.airflow.web.logged_in import SAFE_HEADERS, LateApp, logged_in_app

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.responses import Response

_LOG = logging.getLogger(__name__)

# The pages show values from the data, and have no scripts. If a value becomes HTML by mistake, nothing of it
# runs, and it cannot navigate: the sandbox blocks `<meta http-equiv="refresh">`, too. `allow-same-origin`
# keeps the login's cookie for the next link; without scripts a page can do nothing else with its origin.
_HEADERS = {
    "Content-Security-Policy": (
        "sandbox allow-same-origin; default-src 'none'; style-src 'self' 'unsafe-inline';"
        " img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    **SAFE_HEADERS,
}


class _NotAPageError(Exception):
    """The path is not served."""

    status_code = 404


class FolderApp(LateApp):
    """The application.

    Args:
        title: The title of the application.
        folder: Returns the folder's URI; the folder may not exist yet.
        missing: The message for a missing page.
        dags: Maps the path of a page to the ids of its DAGs; None if the path cannot be a page.
    """

    def __init__(
        self,
        title: str,
        folder: Callable[[], str],
        missing: str,
        dags: Callable[[str], Collection[str] | None],
    ) -> None:
        super().__init__(lambda: _create_app(title, folder(), missing, dags))


def is_below(path: str) -> bool:
    """Whether a path of a request stays in its folder, on storage that resolves `..` and on any other."""
    return not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in path.split("/"))


def read_page(folder_uri: str, path: str) -> bytes | None:
    """Return a page of a folder; None if there is none.

    Raises:
        OSError: The storage cannot be read.
    """
    from stateward.contract.storage import read_bytes

    return read_bytes(f"{folder_uri.rstrip('/')}/{path}") if is_below(path) else None


def _finder(uri: str) -> Callable[[str, Any], Awaitable["Response"]]:
    """Return what answers with a page of the folder, or raises an error with the status 404."""
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import HTMLResponse
    from fastapi.staticfiles import StaticFiles

    from stateward.contract.storage import local_path

    if (folder := local_path(uri)) is not None:
        # The folder is created with its first page.
        return StaticFiles(directory=folder, html=True, check_dir=False).get_response

    async def from_storage(path: str, scope: Any) -> "Response":
        content = await run_in_threadpool(read_page, uri, path)
        if content is None:
            raise _NotAPageError
        return HTMLResponse(content)

    return from_storage


def _create_app(
    title: str, uri: str, missing: str, dags: Callable[[str], Collection[str] | None]
) -> "FastAPI":
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, HTTPException, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import PlainTextResponse, Response

    from stateward.airflow.web.access import may_read, require

    find = _finder(uri)
    app = logged_in_app(title)

    @app.get("/{path:path}")
    async def page(path: str, request: Request, user: Annotated[Any, Depends(get_user)]) -> Response:
        path = path or "index.html"
        try:
            needed = dags(path) if is_below(path) else None
            if needed is None:
                raise _NotAPageError
            # Checked before the lookup: the existence of a page is information, too.
            await run_in_threadpool(require, may_read(user), needed)
            response = await find(path, request.scope)
        except HTTPException:
            raise
        except OSError as error:
            _LOG.warning("%s cannot be read: %s", uri, error)
            response = PlainTextResponse(f"{title}: the storage does not answer.", status_code=503)
        except Exception as error:
            if getattr(error, "status_code", None) != 404:
                raise
            response = PlainTextResponse(missing, status_code=404)
        response.headers.update(_HEADERS)
        return response

    return app
