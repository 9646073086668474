"""Serves a folder of pages in Airflow's UI, to people who are logged in."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

# The pages show values from the data. They hold no scripts, and the browser is told to run none.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}

_Scope = MutableMapping[str, Any]
_Channel = Callable[..., Awaitable[Any]]


class _NotAPageError(Exception):
    """Something is asked for that is not served."""

    status_code = 404


class FolderApp:
    """The application, built at the first request: plugins are imported by every part of Airflow.

    Args:
        title: What is served.
        folder: Gives the folder's URI; it may appear later.
        missing: What to say of a page that is not there.
        only_pages: Whether only HTML is served, whatever else is in the folder.
    """

    def __init__(
        self, title: str, folder: Callable[[], str], missing: str, *, only_pages: bool = False
    ) -> None:
        self._title = title
        self._folder = folder
        self._missing = missing
        self._only_pages = only_pages

    @cached_property
    def _app(self) -> "FastAPI":
        return _create_app(self._title, self._folder(), self._missing, only_pages=self._only_pages)

    async def __call__(self, scope: _Scope, receive: _Channel, send: _Channel) -> None:
        """Answer one request (ASGI)."""
        await self._app(scope, receive, send)


def _create_app(title: str, uri: str, missing: str, *, only_pages: bool) -> "FastAPI":
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, FastAPI, HTTPException, Request
    from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
    from fastapi.staticfiles import StaticFiles

    # The folder appears with its first page.
    files = StaticFiles(directory=uri.removeprefix("file://"), html=True, check_dir=False)
    app = FastAPI(title=title, openapi_url=None)

    @app.get("/{path:path}", dependencies=[Depends(get_user)])
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

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        # A person who follows the link is asked to log in; a program gets the status.
        if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(
                get_auth_manager().get_url_login(next_url=str(request.url)), status_code=303
            )
        return JSONResponse({"detail": error.detail}, status_code=error.status_code)

    return app
