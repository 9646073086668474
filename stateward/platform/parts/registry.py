"""The parts of the embedded platform: what is run, in which order, and on which ports."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from stateward.project.settings import Settings


@dataclass(frozen=True)
class Part:
    """One supervised process.

    Attributes:
        name: as in `stateward status` and in the names of the logs.
        what: one line for people.
        port_settings: fields of `Settings` that hold the ports it listens on; the first is its address.
        stop_wait_s: seconds between SIGTERM and SIGKILL of its process group.
    """

    name: str
    what: str
    port_settings: tuple[str, ...] = ()
    stop_wait_s: int = 15

    def address(self, settings: Settings) -> str | None:
        """Return `host:port` of the part, or None when it does not listen."""
        if not self.port_settings:
            return None
        return f"{settings.bind_host}:{getattr(settings, self.port_settings[0])}"


KAFKA = Part("kafka", "Kafka broker", ("kafka_port", "kafka_controller_port"), stop_wait_s=30)
API_SERVER = Part("api-server", "Airflow UI and REST API", ("airflow_port",), stop_wait_s=10)
SCHEDULER = Part("scheduler", "Airflow scheduler", ("airflow_worker_log_port",))
DAG_PROCESSOR = Part("dag-processor", "Airflow DAG processor")
TRIGGERER = Part("triggerer", "Airflow triggerer", ("airflow_triggerer_log_port",))

# A deployment with the Celery executor has it, as docker-compose.yaml does; `up` has none.
WORKER = Part("worker", "Airflow Celery worker", ("airflow_worker_log_port",))

AIRFLOW_PARTS = (API_SERVER, DAG_PROCESSOR, SCHEDULER, TRIGGERER)


def parts_of(settings: Settings) -> tuple[Part, ...]:
    """Return the parts that run here: a broker that is not ours is not started."""
    return (KAFKA, *AIRFLOW_PARTS) if settings.embedded else AIRFLOW_PARTS


def launch_command(part: Part) -> list[str]:
    """Return the command the supervisor runs; `stateward.platform.parts.launcher` then becomes the part."""
    return [sys.executable, "-m", "stateward.platform.parts.launcher", part.name]
