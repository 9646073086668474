"""Serves metrics: of all streams to Prometheus, by a token; to a user, of the streams that they may read."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Annotated, Any

from stateward.airflow.web.logged_in import SAFE_HEADERS, LateApp, guarded_app
from stateward.project.settings import Settings
from stateward.rendering.page_address import METRICS

if TYPE_CHECKING:
    from fastapi import FastAPI

_Scope = MutableMapping[str, Any]
_Channel = Callable[..., Awaitable[Any]]


def metrics_app() -> LateApp:
    """The application."""
    return LateApp(create_app)


class WithoutSlash:
    """Adds the slash at the end of the metrics' path that the mount of an application needs.

    Otherwise Airflow would answer `/stateward/metrics` with the first page of its UI.

    Args:
        app: The wrapped application (ASGI).
    """

    def __init__(self, app: Callable[..., Awaitable[Any]]) -> None:
        self._app = app

    async def __call__(self, scope: _Scope, receive: _Channel, send: _Channel) -> None:
        """Pass on one request (ASGI)."""
        if scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) == METRICS:
            scope = {**scope, "path": scope["path"] + "/"}
        await self._app(scope, receive, send)


def create_app() -> "FastAPI":
    """Build the application; each request reads the documents again."""
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
            # Airflow answers an unknown token with 403; here it is a wrong token of the scraper.
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
    """Tell whether this is the token for Prometheus; never, if the settings have none.

    Args:
        given: The token of the request.
        settings: The settings.
    """
    token = settings.metrics_token
    if token is None:
        return False
    # As bytes: text would have to be ASCII.
    return hmac.compare_digest(given.encode(), token.get_secret_value().encode())
