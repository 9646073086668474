"""docker-compose.yaml, built and started on the Docker engine that is there (`DOCKER_HOST`)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from stateward.platform.parts.ports import free_ports
from tests.compose.project import Project, copied_to

STREAM_YAML = "include/streams/user_sessions.yaml"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project that is up. A test that breaks it has to leave it repaired."""
    engine = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    assert engine.returncode == 0, f"no Docker engine answers; set DOCKER_HOST: {engine.stderr}"
    folder = copied_to(tmp_path_factory.mktemp("project"))
    # Small batches, so that a stream is in the middle of something for a while.
    yaml, topic = folder / STREAM_YAML, "{topic: user_events}"
    text = yaml.read_text()
    assert topic in text
    yaml.write_text(text.replace(topic, "{topic: user_events, max_records_per_batch: 500}"))
    ui_port, kafka_port = free_ports(2)
    one = Project(folder, f"stateward-test-{os.getpid()}", ui_port, kafka_port)
    one.configure()
    try:
        one.build()
        one.up()
        yield one
    finally:
        one.run("down", "--volumes", "--remove-orphans")
