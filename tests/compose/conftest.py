"""docker-compose.yaml, built and started on the Docker engine that is there (`DOCKER_HOST`)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stateward.platform.parts.ports import free_ports
from tests.compose.project import Project, copied_to

STREAM_YAML = "include/streams/user_sessions.yaml"


@contextmanager
def started(folder: Path, batch: int, **values: str) -> Iterator[Project]:
    """A project that is up; it is removed at the end.

    Args:
        folder: An empty one, for its files.
        batch: The most records of a batch: few, so that a stream is in the middle of something for a while.
        values: What its `.env` has besides what it has to have.
    """
    engine = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    assert engine.returncode == 0, f"no Docker engine answers; set DOCKER_HOST: {engine.stderr}"
    copied_to(folder)
    yaml, topic = folder / STREAM_YAML, "{topic: user_events}"
    text = yaml.read_text()
    assert topic in text
    yaml.write_text(text.replace(topic, f"{{topic: user_events, max_records_per_batch: {batch}}}"))
    ui_port, kafka_port = free_ports(2)
    one = Project(folder, f"stateward-test-{os.getpid()}", ui_port, kafka_port)
    one.configure(**values)
    try:
        one.build()
        one.up()
        yield one
    finally:
        one.run("down", "--volumes", "--remove-orphans")


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project that is up. A test that breaks it has to leave it repaired."""
    with started(tmp_path_factory.mktemp("project"), 500) as one:
        yield one
