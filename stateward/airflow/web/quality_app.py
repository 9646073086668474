"""Serves the quality pages: validations of the tables of streams that a user may read."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from stateward.airflow.web.logged_in import SAFE_HEADERS, LateApp, logged_in_app
from stateward.project.layout import Layout
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

_NAME = r"^[a-z][a-z0-9_]*$"


def quality_app() -> LateApp:
    """The application."""
    return LateApp(create_app)


def create_app() -> "FastAPI":
    """Build the application; each request reads the tables again."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Body, Depends, Header, HTTPException, Query
    from fastapi.responses import HTMLResponse, RedirectResponse, Response

    from stateward.airflow.web.access import may_read, require, require_operator
    from stateward.pages.access import stream_dag
    from stateward.pages.quality.acknowledgement import (
        MOST_CHARACTERS,
        Acknowledgement,
        write_acknowledgement,
    )
    from stateward.pages.quality.failures import failing_of, failures_of, latest_of
    from stateward.pages.quality.history import Name
    from stateward.pages.quality.page import MOST_DAYS, policies, render_overview, render_table, since
    from stateward.pages.quality.tables import read_quality

    app = logged_in_app("Quality")
    headers = [{"Content-Security-Policy": policy, **SAFE_HEADERS} for policy in policies()]
    days_shown = Query(ge=1, le=MOST_DAYS)

    @app.get("/")
    def index() -> Response:
        return RedirectResponse("index.html")

    # Not coroutines: files are read, and the server's other pages must not wait for them.
    @app.get("/index.html")
    def overview(user: Annotated[Any, Depends(get_user)], days: Annotated[int, days_shown] = 7) -> Response:
        now = datetime.now(UTC)
        found = read_quality(Settings(), since(now, days), readable=may_read(user))
        return HTMLResponse(render_overview(found, now, days), headers=headers[0])

    @app.get("/table.html")
    def table(
        stream: Annotated[str, Query(pattern=_NAME)],
        table: Annotated[str, Query(pattern=_NAME)],
        user: Annotated[Any, Depends(get_user)],
        days: Annotated[int, days_shown] = 7,
    ) -> Response:
        require(may_read(user), [stream_dag(stream)])
        now, name = datetime.now(UTC), Name(stream, table)
        found = read_quality(Settings(), since(now, days), name)
        return HTMLResponse(render_table(found, name, now, days), headers=headers[1])

    @app.post("/acknowledge")
    def acknowledge(
        stream: Annotated[str, Body(pattern=_NAME)],
        table: Annotated[str, Body(pattern=_NAME)],
        note: Annotated[str, Body(max_length=MOST_CHARACTERS)],
        user: Annotated[Any, Depends(get_user)],
        x_stateward: Annotated[str, Header()] = "",
    ) -> dict[str, str]:
        # Another site's page cannot send this header with the user's cookie.
        if not x_stateward:
            raise HTTPException(403, "expected the header X-Stateward: send notes from the table's page")
        require_operator(user, stream_dag(stream))
        now, name, settings = datetime.now(UTC), Name(stream, table), Settings()
        found = read_quality(settings, since(now, MOST_DAYS), name)
        failing = failing_of(failures_of(found.results, latest_of(found.validations)), name)
        said = Acknowledgement(by=user.get_name(), at=now, note=note.strip(), failures=tuple(sorted(failing)))
        write_acknowledgement(Layout.of(settings), name, said)
        return {"by": said.by}

    return app
