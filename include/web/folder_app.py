"""Serves a folder of pages in Airflow's UI, to people who are logged in."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from collections.abc import Callable
from typing import TYPE_CHECKING

from include.web.logged_in import SAFE_HEADERS, LateApp, logged_in_app

if TYPE_CHECKING:
    from fastapi import FastAPI

# The pages show values from the data. They hold no scripts, and the browser is told to run none.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
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
        only_pages: Whether only HTML is served, whatever else is in the folder.
    """

    def __init__(
        self, title: str, folder: Callable[[], str], missing: str, *, only_pages: bool = False
    ) -> None:
        super().__init__(lambda: _create_app(title, folder(), missing, only_pages=only_pages))


def _create_app(title: str, uri: str, missing: str, *, only_pages: bool) -> "FastAPI":
    from fastapi import HTTPException, Request
    from fastapi.responses import PlainTextResponse, Response
    from fastapi.staticfiles import StaticFiles

    # The folder appears with its first page.
    files = StaticFiles(directory=uri.removeprefix("file://"), html=True, check_dir=False)
    app = logged_in_app(title)

    @app.get("/{path:path}")
    async def page(path: str, request: Request) -> Response:
        try:
            if only_pages and not path.endswith(".html"):
                raise _NotAPageError
            response = await files.get_response(path or "index.html", request.scope)
        except HTTPException:
            raise
        except Exception as error:
            if getattr(error, "status_code", None) != 404:
                raise
            response = PlainTextResponse(missing, status_code=404)
        response.headers.update(_HEADERS)
        return response

    return app
