"""Fixture `broker`: a real Kafka broker (KRaft, from the JARs) on free ports, once per test session."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT
from tests.support.waiting import PATIENCE_S, wait_until


@dataclass
class RunningBroker:
    """A broker that tests may pause, kill and start again; `client` is how its clients log in."""

    definition: Broker
    process: subprocess.Popen[bytes] | None = None
    client: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        host = self.definition.host
        return f"{'localhost' if host == '127.0.0.1' else host}:{self.definition.port}"

    @property
    def log(self) -> Path:
        return self.definition.folder / "broker.log"

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        self.definition.prepare()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.definition.command(),
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.definition.environment(),
                start_new_session=True,
            )
        wait_until(self.answers, PATIENCE_S, lambda: f"the broker answers; its log ends: {self._log_tail()}")

    def answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self.process is not None
        assert self.process.poll() is None, f"the broker ended with {self.process.poll()}: {self._log_tail()}"
        client = AdminClient({**self.client, "bootstrap.servers": self.bootstrap, "logger": _silent()})
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def stop(self, with_signal: signal.Signals = signal.SIGKILL) -> None:
        """End the broker; its data stays and `start` goes on with it."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(with_signal)
            self.process.wait(timeout=60)

    def create_topic(self, name: str, partitions: int = 3) -> str:
        """Create a topic and wait until it can be written."""
        from stateward.platform.topics import ensure_topic

        ensure_topic(self.bootstrap, name, partitions, create=True)
        return name

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else "(no log)"


def _silent() -> Any:
    import logging

    logger = logging.getLogger("tests.kafka.silent")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


@pytest.fixture(scope="session")
def new_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], RunningBroker]]:
    """Makes brokers of a test's own, for tests that stop them; all are ended after the session."""
    made: list[RunningBroker] = []

    def make() -> RunningBroker:
        port, controller = free_ports(2)
        folder = tmp_path_factory.mktemp("kafka")
        made.append(
            RunningBroker(
                Broker(folder, CHECKOUT / "jars" / "kafka", "127.0.0.1", port, controller, heap_mb=384)
            )
        )
        made[-1].start()
        return made[-1]

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture(scope="session")
def broker(new_broker: Callable[[], RunningBroker]) -> RunningBroker:
    """The session's shared broker: use topics of your own, and do not stop it."""
    return new_broker()
