"""Applications that are built at the first request, and only for users who are logged in."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stateward.airflow.storage_connection import use_storage
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}

_Scope = MutableMapping[str, Any]
_Channel = Callable[..., Awaitable[Any]]


class LateApp:
    """An application that is built at the first request: every component of Airflow imports plugins."""

    def __init__(self, create: Callable[[], "FastAPI"]) -> None:
        self._create = create

    @cached_property
    def _app(self) -> "FastAPI":
        return self._create()

    async def __call__(self, scope: _Scope, receive: _Channel, send: _Channel) -> None:
        """Answer one request (ASGI)."""
        await self._app(scope, receive, send)


def logged_in_app(title: str) -> "FastAPI":
    """Return an application whose routes need a login to Airflow."""
    from airflow.api_fastapi.core_api.security import get_user

    return guarded_app(title, get_user)


def guarded_app(title: str, may_read: Callable[..., Any]) -> "FastAPI":
    """Return an application whose routes need a permission.

    Args:
        title: The title of the application.
        may_read: A FastAPI dependency that raises `HTTPException` without the permission.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from fastapi import Depends, FastAPI, HTTPException, Request
    from fastapi.responses import JSONResponse, RedirectResponse, Response

    use_storage(Settings())
    # No redirect between a path with and without a slash: it would name the host that this server knows.
    app = FastAPI(title=title, openapi_url=None, dependencies=[Depends(may_read)], redirect_slashes=False)

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        # A browser is redirected to the login; a program gets the status.
        if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
            # Back to a path: behind a proxy this server may know neither the scheme nor the host.
            asked = request.url
            here = f"{asked.path}?{asked.query}" if asked.query else asked.path
            return RedirectResponse(get_auth_manager().get_url_login(next_url=here), status_code=303)
        return JSONResponse({"detail": error.detail}, status_code=error.status_code, headers=error.headers)

    return app
