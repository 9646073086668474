"""Passes Spark's own UI of a driver on to users who may read the DAG of its stream."""

# No `from __future__ import annotations`: FastAPI could not resolve the types that are imported late.

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from stateward.airflow.web.logged_in import LateApp, logged_in_app
from stateward.contract.reading import InvalidDocumentError
from stateward.contract.stream_status import ENDED
from stateward.control.reconcile.observe import observe
from stateward.project.layout import Layout

if TYPE_CHECKING:
    from fastapi import FastAPI

_TIMEOUT_S = 30.0
_PASSED_ON = ("content-type", "content-security-policy", "cache-control")


def spark_ui_app() -> LateApp:
    """The application."""
    return LateApp(create_app)


def address_of(layout: Layout, stream: str) -> tuple[str, bool]:
    """Return the address of the UI of the driver that runs now, and whether this server passes it on.

    A driver in a container of YARN answers those alone who come by way of YARN's own proxy.

    Raises:
        LookupError: There is none; the message names the stream and what to do.
    """
    try:
        seen = observe(layout, stream)
    except (InvalidDocumentError, OSError) as error:
        raise LookupError(f"stream {stream}: its status cannot be read: {error}") from error
    status = seen.status
    if status is None or status.state in ENDED:
        raise LookupError(
            f"stream {stream}: expected a driver that runs, found none. Trigger stream_{stream}."
        )
    if status.spark_ui is None or urlsplit(status.spark_ui).scheme not in ("http", "https"):
        raise LookupError(
            f"stream {stream}: its driver has no UI of Spark (yet). Reload when the stream runs; if there is"
            " none then, remove `spark.ui.enabled: false` from its YAML and restart it."
        )
    launch = seen.control.launch if seen.control else None
    behind = launch.application.spark_ui if launch and launch.application else ""
    return behind or status.spark_ui, not behind


def create_app() -> "FastAPI":
    """Build the application. It only reads: Spark's UI ends no job of a driver."""
    import httpx
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends, HTTPException, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import RedirectResponse, Response

    from stateward.airflow.web.access import may_read, require
    from stateward.pages.access import stream_dag

    app = logged_in_app("Spark UI")

    @app.get("/{stream}")
    def top(stream: str) -> Response:
        return RedirectResponse(f"{stream}/")

    @app.get("/{stream}/{path:path}")
    async def page(
        stream: str, path: str, request: Request, user: Annotated[Any, Depends(get_user)]
    ) -> Response:
        await run_in_threadpool(require, may_read(user), [stream_dag(stream)])
        try:
            address, is_passed_on = await run_in_threadpool(address_of, Layout.of(), stream)
        except LookupError as error:
            raise HTTPException(404, str(error)) from error
        if not is_passed_on:
            return RedirectResponse(f"{address}/{path}", status_code=307)
        base = f"{request.scope['root_path']}/{stream}"
        # Spark builds its links below this path.
        headers = {"X-Forwarded-Context": base, "Accept": request.headers.get("accept", "*/*")}
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:
                answer = await client.get(
                    f"{address}/{path}", params=request.url.query or None, headers=headers
                )
        except httpx.HTTPError as error:
            reason = f"stream {stream}: Spark's UI at {address} does not answer ({error!r}) to this server."
            raise HTTPException(
                502, f"{reason} SPARK_PUBLIC_DNS of the driver has to name its host."
            ) from error
        if answer.is_redirect:
            return RedirectResponse(_below(base, answer.headers["location"]), status_code=307)
        passed_on = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        return Response(answer.content, answer.status_code, passed_on)

    return app


def _below(base: str, location: str) -> str:
    """Return the path of a redirect of Spark below `base`."""
    parts = urlsplit(location)
    path = parts.path if parts.path.startswith(f"{base}/") else base + parts.path
    return path + (f"?{parts.query}" if parts.query else "")
