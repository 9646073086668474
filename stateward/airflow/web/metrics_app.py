"""Serves metrics: of every stream to Prometheus, by a token; to a person, of the streams they may read."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Annotated, Any

from stateward.airflow.web.logged_in import SAFE_HEADERS, LateApp, guarded_app
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

PREFIX = "/stateward/metrics"
"""Where the plugin serves them, below Airflow's base path."""

_Scope = MutableMapping[str, Any]
_Channel = Callable[..., Awaitable[Any]]


def metrics_app() -> LateApp:
    """The application."""
    return LateApp(create_app)


class WithoutSlash:
    """Lets the metrics be found without a slash at the end, which the mount of an application needs.

    Without it Airflow would answer `/stateward/metrics` with the first page of its UI.

    Args:
        app: The application behind (ASGI).
    """

    def __init__(self, app: Callable[..., Awaitable[Any]]) -> None:
        self._app = app

    async def __call__(self, scope: _Scope, receive: _Channel, send: _Channel) -> None:
        """Pass on one request (ASGI)."""
        if scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) == PREFIX:
            scope = {**scope, "path": scope["path"] + "/"}
        await self._app(scope, receive, send)


def create_app() -> "FastAPI":
    """Build it; the documents are read anew for each request."""
    from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
    from fastapi import Depends, Header, HTTPException, Request
    from fastapi.responses import Response
    from fastapi.security import HTTPAuthorizationCredentials

    from stateward.airflow.web.access import may_read
    from stateward.metrics.exposition import exposition
    from stateward.pages.access import MayRead, any_dag

    async def reader(
        request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)]
    ) -> MayRead:
        if bearer is not None and is_token(bearer.credentials, Settings()):
            return any_dag
        try:
            return may_read(await get_user(request, None, bearer))
        except HTTPException as error:
            # Of a token that it does not know Airflow says 403; it is the scraper's, and a wrong one.
            headers = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, detail=error.detail, headers=headers) from error

    app = guarded_app("Metrics", reader)

    # Not a coroutine: files are read, and the server's other pages must not wait for them.
    @app.get("/")
    def metrics(
        readable: Annotated[MayRead, Depends(reader)], accept: Annotated[str, Header()] = ""
    ) -> Response:
        content, content_type = exposition(Settings(), accept, readable)
        return Response(content, headers={**SAFE_HEADERS, "Content-Type": content_type})

    return app


def is_token(given: str, settings: Settings) -> bool:
    """Tell whether that is the token for Prometheus. Without a token in the settings nothing is.

    Args:
        given: What came with the request.
        settings: With or without a token.
    """
    token = settings.metrics_token
    if token is None:
        return False
    # As bytes: of text it takes ASCII only.
    return hmac.compare_digest(given.encode(), token.get_secret_value().encode())
