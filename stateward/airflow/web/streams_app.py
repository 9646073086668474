"""Serves the operator's page: the current state of the streams whose DAGs a user may read."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from stateward.airflow.web.logged_in import SAFE_HEADERS, LateApp, logged_in_app
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI


def streams_app() -> LateApp:
    """The application."""
    return LateApp(create_app)


def create_app() -> "FastAPI":
    """Build the application; each request reads the documents again."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, Query
    from fastapi.responses import HTMLResponse, RedirectResponse, Response

    from stateward.airflow.web.access import may_read
    from stateward.pages.streams.documents import read_streams
    from stateward.pages.streams.page import MOST_HOURS, content_policy, render

    app = logged_in_app("Streams")
    headers = {"Content-Security-Policy": content_policy(), **SAFE_HEADERS}

    @app.get("/")
    def index() -> Response:
        return RedirectResponse("index.html")

    # Not a coroutine: files are read, and the server's other pages must not wait for them.
    @app.get("/index.html")
    def page(
        user: Annotated[Any, Depends(get_user)], hours: Annotated[int, Query(ge=1, le=MOST_HOURS)] = 6
    ) -> Response:
        read = read_streams(Settings(), readable=may_read(user))
        return HTMLResponse(render(read, datetime.now(UTC), hours), headers=headers)

    return app
