"""Serves Data Docs in Airflow's UI, to people who are logged in."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from include.operators.quality_report import DOCS_PREFIX

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


class DataDocsApp:
    """The application, built at the first request: plugins are imported by every part of Airflow."""

    @cached_property
    def _app(self) -> "FastAPI":
        return create_app()

    async def __call__(self, scope: _Scope, receive: _Channel, send: _Channel) -> None:
        """Answer one request (ASGI)."""
        await self._app(scope, receive, send)


def create_app() -> "FastAPI":
    """Return the application that serves the folder of Data Docs."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, FastAPI, HTTPException, Request
    from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
    from fastapi.staticfiles import StaticFiles

    from include.layout import Layout

    folder = Layout.of().data_docs_uri.removeprefix("file://")
    # The folder appears with the first validation.
    files = StaticFiles(directory=folder, html=True, check_dir=False)
    app = FastAPI(title="Data Docs", openapi_url=None)

    @app.get("/{path:path}", dependencies=[Depends(get_user)])
    async def page(path: str, request: Request) -> Response:
        try:
            response = await files.get_response(path or "index.html", request.scope)
        except HTTPException:
            raise
        except Exception as error:
            if getattr(error, "status_code", None) != 404:
                raise
            response = PlainTextResponse(
                "No such report. Reports are kept for the latest validations of each suite; the table"
                " quality_results keeps the results of all of them.",
                status_code=404,
            )
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


class DataDocsPlugin(AirflowPlugin):
    """Registers the pages below Airflow's base path."""

    name = "stateward_data_docs"
    # Airflow declares them as attributes of an instance, and reads them from the class.
    fastapi_apps = [{"app": DataDocsApp(), "url_prefix": DOCS_PREFIX, "name": "Data Docs"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {"name": "Data Docs", "href": f"{DOCS_PREFIX}/index.html", "destination": "nav", "category": "browse"}
    ]
