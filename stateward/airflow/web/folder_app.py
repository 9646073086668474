"""Serves a folder of pages in Airflow's UI, each to people who may read the DAGs that it takes."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any

from stateward.airflow.web.logged_in import SAFE_HEADERS, LateApp, logged_in_app

if TYPE_CHECKING:
    from fastapi import FastAPI

# The pages show values from the data, and hold no scripts. Should a value become HTML all the same, nothing
# of it runs, and it leads nowhere: the sandbox stops `<meta http-equiv="refresh">`, too. `allow-same-origin`
# keeps the login's cookie at the next link; without scripts a page can do nothing else with its origin.
_HEADERS = {
    "Content-Security-Policy": (
        "sandbox allow-same-origin; default-src 'none'; style-src 'self' 'unsafe-inline';"
        " img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    **SAFE_HEADERS,
}


class _NotAPageError(Exception):
    """Something is asked for that is not served."""

    status_code = 404


class FolderApp(LateApp):
    """The application.

    Args:
        title: What is served.
        folder: Gives the folder's URI; it may appear later.
        missing: What to say of a page that is not there.
        dags: From the path of a page to the ids of the DAGs that it takes; None if there can be no such page,
            whatever else is in the folder.
    """

    def __init__(
        self,
        title: str,
        folder: Callable[[], str],
        missing: str,
        dags: Callable[[str], Collection[str] | None],
    ) -> None:
        super().__init__(lambda: _create_app(title, folder(), missing, dags))


def _create_app(
    title: str, uri: str, missing: str, dags: Callable[[str], Collection[str] | None]
) -> "FastAPI":
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, HTTPException, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import PlainTextResponse, Response
    from fastapi.staticfiles import StaticFiles

    from stateward.airflow.web.access import may_read, require

    # The folder appears with its first page.
    files = StaticFiles(directory=uri.removeprefix("file://"), html=True, check_dir=False)
    app = logged_in_app(title)

    @app.get("/{path:path}")
    async def page(path: str, request: Request, user: Annotated[Any, Depends(get_user)]) -> Response:
        path = path or "index.html"
        try:
            needed = dags(path)
            if needed is None:
                raise _NotAPageError
            # Before it is looked for: that there is a page tells something as well.
            await run_in_threadpool(require, may_read(user), needed)
            response = await files.get_response(path, request.scope)
        except HTTPException:
            raise
        except Exception as error:
            if getattr(error, "status_code", None) != 404:
                raise
            response = PlainTextResponse(missing, status_code=404)
        response.headers.update(_HEADERS)
        return response

    return app
