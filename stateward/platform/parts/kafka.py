"""The embedded Kafka broker: one KRaft node, run from its JARs."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path

from stateward.platform.jars.java import find_java
from stateward.project.settings import Settings, connect_host

# A 5 MB record must reach the stream, which sends it to dead_letters.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024

_LOG4J = """\
Configuration:
  status: WARN
  Appenders:
    Console:
      name: out
      PatternLayout:
        pattern: "%d{ISO8601} %-5p %c{1}: %m%n"
  Loggers:
    Root:
      level: WARN
      AppenderRef: {ref: out}
    Logger:
      - {name: kafka.server.KafkaRaftServer, level: INFO}
"""


class BrokerFormatError(RuntimeError):
    """The broker's storage could not be prepared."""


@dataclass(frozen=True)
class Broker:
    """Configuration of one embedded broker.

    Attributes:
        folder: holds the configuration and the log segments; survives restarts.
        jars: folder with the JARs of `kafka_2.13`.
        host: address to bind and to advertise.
        port: clients connect here.
        controller_port: the node talks to itself here.
        heap_mb: heap of the JVM, MiB.
        published_as: address that clients elsewhere are given, at a second listener, if there is one.
        published_port: port of that listener, on every address of this machine.
    """

    folder: Path
    jars: Path
    host: str
    port: int
    controller_port: int
    heap_mb: int = 512
    published_as: str | None = None
    published_port: int = 19094

    @classmethod
    def of(cls, settings: Settings) -> Broker:
        """Return the broker that `settings` describe."""
        return cls(
            folder=settings.home / "kafka",
            jars=settings.jars / "kafka",
            host=settings.bind_host,
            port=settings.kafka_port,
            controller_port=settings.kafka_controller_port,
            heap_mb=settings.kafka_heap_mb,
            published_as=settings.kafka_published_as,
            published_port=settings.kafka_published_port,
        )

    @property
    def properties_file(self) -> Path:
        """The broker's `server.properties`."""
        return self.folder / "server.properties"

    @property
    def log_dir(self) -> Path:
        """Folder with the log segments."""
        return self.folder / "logs"

    def properties(self) -> str:
        """Return the content of `server.properties`."""
        controller = f"{self.host}:{self.controller_port}"
        listeners = [f"PLAINTEXT://{self.host}:{self.port}", f"CONTROLLER://{controller}"]
        advertised = [f"PLAINTEXT://{connect_host(self.host)}:{self.port}"]
        if self.published_as:
            listeners.append(f"PUBLISHED://0.0.0.0:{self.published_port}")
            advertised.append(f"PUBLISHED://{self.published_as}")
        values: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PUBLISHED:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.log_dir,
            # Topics are created on purpose, with the partitions the stream's YAML asks for.
            "auto.create.topics.enable": "false",
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
            # The driver tells a replay from a live topic by the broker's clock.
            "log.message.timestamp.type": "LogAppendTime",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            # Streams keep their own offsets and may be rebuilt from the start: nothing expires by itself.
            "log.retention.hours": -1,
            # After a kill the node waits until its own old registration has expired (9 s by default).
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 1000,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def command(self) -> list[str]:
        """Return the command line that runs the broker in the foreground."""
        heap = (f"-Xmx{self.heap_mb}m", f"-Xms{min(256, self.heap_mb)}m")
        return [*self._java(*heap), "kafka.Kafka", str(self.properties_file)]

    def prepare(self) -> None:
        """Write the configuration, and format the storage when it is new. Idempotent.

        Raises:
            JavaNotFoundError: no Java 17 or 21.
            BrokerFormatError: `StorageTool format` failed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties_file.write_text(self.properties())
        (self.folder / "log4j2.yaml").write_text(_LOG4J)
        # Written last by StorageTool: without it an interrupted format starts over.
        if (self.log_dir / "meta.properties").exists():
            return
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*self._java("-Xmx128m", "-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool", "format"]
        # With "=": one id in 64 begins with a dash.
        command += [f"--cluster-id={cluster_id}", "--config", str(self.properties_file), "--ignore-formatted"]
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment())
        if run.returncode != 0:
            raise BrokerFormatError(
                f"Kafka's storage in {self.log_dir} could not be formatted (exit {run.returncode}): "
                f"{(run.stderr or run.stdout).strip()[-800:]}"
            )

    def environment(self) -> dict[str, str]:
        """Return the environment of the broker's process: ours, and the Java that was found."""
        return {**os.environ, "JAVA_HOME": str(find_java())}

    def _java(self, *options: str) -> list[str]:
        return [
            str(find_java() / "bin" / "java"),
            *options,
            # The heap is small and the JVM shares two cores with Spark and Airflow.
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.yaml'}",
            "-cp",
            f"{self.jars}/*",
        ]
