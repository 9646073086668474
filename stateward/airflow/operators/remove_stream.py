"""The task that removes a stopped stream: state, lease, documents, tick topic; tables on request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from stateward.airflow.compat import AirflowSkipException
from stateward.airflow.kafka_connection import with_kafka
from stateward.airflow.operators.deploy_stream import dag_run_of
from stateward.airflow.operators.operation_params import failed
from stateward.contract.names import TICK_TOPICS
from stateward.contract.reading import InvalidDocumentError
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.reconcile.effective_spec import spec_in_force
from stateward.control.reconcile.removal import RemovalError, kept_of, parts_of, remove, require_at_rest
from stateward.platform.topics import (
    BrokerUnreachableError,
    TopicForbiddenError,
    delete_topic,
    partition_count,
)
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, StreamSpec, load_specs

if TYPE_CHECKING:
    from airflow.sdk import Context

_CANNOT = (RemovalError, SpecError, LaunchError, InvalidDocumentError, BrokerUnreachableError)


class RemoveStreamOperator(BaseOperator):
    """Removes a stream that does not run; skipped for other actions.

    Without the stream's name in the parameter `confirm` it only lists what it would remove.

    Args:
        stream: The stream's name, which is that of its YAML.
    """

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> dict[str, list[str]]:
        """List, and remove if that is confirmed.

        Returns:
            `removes` and `keeps`, a line for each thing.

        Raises:
            AirflowSkipException: The action is another one.
            AirflowFailException: The stream runs, `confirm` is another name, or Kafka does not answer.
        """
        params = context["params"]
        if params["action"] != "remove":
            raise AirflowSkipException("no removal was asked for")
        confirmed = params.get("confirm") or ""
        if confirmed not in ("", self.stream):
            raise failed(
                context, f"stream {self.stream}: expected its name as `confirm`, found {confirmed!r}"
            )
        try:
            return self._run(context, bool(params.get("tables")), is_confirmed=bool(confirmed))
        except _CANNOT as error:
            raise failed(context, str(error)) from error

    def _run(self, context: Context, tables: bool, *, is_confirmed: bool) -> dict[str, list[str]]:
        settings, now = Settings(), datetime.now(UTC)
        layout, spec = Layout.of(settings), spec_in_force(self.stream, settings)
        require_at_rest(layout, self.stream, now)
        others = [one for one in load_specs(settings.streams)[0] if one.stream != self.stream]
        parts = parts_of(spec, layout, others, tables=tables)
        keeps = kept_of(spec, layout, others, tables=tables)
        topic, stays = _tick_topic(spec, with_kafka(settings), delete=is_confirmed)
        listed = {
            "removes": [*topic, *(f"{part.what}, {part.uri}" for part in parts)],
            "keeps": [*keeps, *stays],
        }
        if not is_confirmed:
            self.log.info("Nothing is removed without the stream's name as `confirm`. It would remove:")
            for line in listed["removes"]:
                self.log.info("- %s", line)
        else:
            for part in remove(parts, layout, self.stream, dag_run_of(context), now):
                self.log.info("removed: %s, %s", part.what, part.uri)
        for line in listed["keeps"]:
            self.log.info("kept: %s", line)
        return listed


def _tick_topic(spec: StreamSpec, settings: Settings, *, delete: bool) -> tuple[list[str], list[str]]:
    """Delete the tick topic where missing topics are created; returns what goes, and what stays."""
    topic, bootstrap = f"{TICK_TOPICS}{spec.stream}", settings.kafka_bootstrap
    told = f"topic {topic} at {bootstrap}"
    try:
        if not partition_count(bootstrap, topic, client_file=settings.kafka_client):
            return [], []
        if not settings.may_create_topics:
            return [], [f"{told}, which has no state: the topics of this cluster are not Stateward's"]
        if delete:
            delete_topic(bootstrap, topic, settings.kafka_client)
    except TopicForbiddenError as error:
        return [], [f"{told}: {error}"]
    return [told], []
