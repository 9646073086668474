"""A small client of Airflow's REST API, as a user's script would write it."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stateward.contract.names import ENV_AIRFLOW_URL

if TYPE_CHECKING:
    import httpx


class AirflowApiError(RuntimeError):
    """Airflow refused a request."""


class AirflowApi:
    """Requests to one Airflow. Use as a context manager.

    Args:
        url: Airflow's base URL, with the path at which a proxy serves it.
        user: The name to log in with, if there is no token.
        password: That user's.
        token: A token of Airflow's API, which is used as it is.

    Raises:
        AirflowApiError: The login was refused, or Airflow does not answer.
    """

    def __init__(self, url: str, user: str = "", password: str = "", *, token: str | None = None) -> None:
        import httpx

        # Not through the user's proxy, which does not reach a local server. SSL_CERT_FILE and SSL_CERT_DIR,
        # for a certificate of one's own, are part of the same environment, and count.
        context = httpx.create_ssl_context(trust_env=True)
        self._client = httpx.Client(base_url=url, timeout=30, trust_env=False, verify=context)
        if token is None:
            body = {"username": user, "password": password}
            token = self._checked(self._post("/auth/token", body))["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def _get(self, path: str, **params: str) -> httpx.Response:
        return self._send("GET", path, params=params)

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._send("POST", path, json=body)

    def _send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        import httpx

        try:
            return self._client.request(method, path, **sent)
        except httpx.TransportError as error:
            raise AirflowApiError(f"Airflow at {self._client.base_url} does not answer: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def has_dag(self, dag_id: str) -> bool:
        """Return whether the DAG has been parsed."""
        answer = self._get(f"/api/v2/dags/{dag_id}")
        if answer.status_code == 404:
            return False
        self._checked(answer)
        return True

    def is_paused(self, dag_id: str) -> bool:
        """Return whether the runs of a DAG wait until it is unpaused."""
        return bool(self._checked(self._get(f"/api/v2/dags/{dag_id}"))["is_paused"])

    def import_errors(self) -> list[str]:
        """Return the problems of DAG files, one text each."""
        found = self._checked(self._get("/api/v2/importErrors"))
        return [f"{one['filename']}: {one['stack_trace'].strip()}" for one in found["import_errors"]]

    def unpause(self, dag_id: str) -> None:
        """Let the DAG run."""
        self._checked(self._send("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False}))

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Start a run now, and return its id."""
        body = {"logical_date": None, "conf": conf}
        run: dict[str, Any] = self._checked(self._post(f"/api/v2/dags/{dag_id}/dagRuns", body))
        return str(run["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run: queued, running, success or failed."""
        return str(self._checked(self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"))["state"])

    def runs(self, dag_id: str) -> dict[str, str]:
        """Return the state of each run of a DAG by its id, oldest first."""
        found = self._checked(self._get(f"/api/v2/dags/{dag_id}/dagRuns", order_by="id"))
        return {str(run["dag_run_id"]): str(run["state"]) for run in found["dag_runs"]}

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Return the state of each task of a run; None for a task that has not started."""
        found = self._checked(self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"))
        return {str(task["task_id"]): task["state"] for task in found["task_instances"]}

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str) -> Any:
        """Return what a task has pushed under a key; None if it has not."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        answer = self._get(path)
        return None if answer.status_code == 404 else self._checked(answer)["value"]

    def task_links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """Return the extra links of a task by their names; None where there is nothing to link to."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links"
        return dict(self._checked(self._get(path))["extra_links"])

    @staticmethod
    def _checked(answer: httpx.Response) -> Any:
        request = f"{answer.request.method} {answer.request.url}"
        if answer.is_error:
            raise AirflowApiError(f"Airflow answered {answer.status_code} to {request}: {answer.text[:500]}")
        kind = answer.headers.get("content-type", "no content type")
        if answer.is_redirect or not kind.startswith("application/json"):
            # A proxy's redirect to HTTPS, or Airflow's UI, which answers every unknown path.
            found = f"a redirect to {answer.headers['location']}" if answer.is_redirect else kind
            raise AirflowApiError(
                f"expected JSON of Airflow's API from {request}, found {found}."
                f" Set {ENV_AIRFLOW_URL} to `base_url` of Airflow's `[api]`, with its path."
            )
        return answer.json()
