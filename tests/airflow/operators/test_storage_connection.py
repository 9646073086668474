"""Credentials of object storage from an Airflow connection: where they go, and where they do not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from airflow.models import Connection
from airflow.utils.session import create_session
from deltalake import DeltaTable, write_deltalake
from pyarrow import table
from sqlalchemy import delete
from typer.testing import CliRunner

from stateward.airflow import storage_connection
from stateward.airflow.spark_submit import build_command
from stateward.airflow.storage_connection import (
    StorageConnectionError,
    use_storage,
    use_storage_in_command,
)
from stateward.cli.main import app
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from tests.airflow.operators.test_spark_submit import STREAM, code_in
from tests.support.control.installation import STATEWARD
from tests.support.object_store import BUCKET, KEY, SECRET, ObjectStore, object_store
from tests.support.small_spec import small_spec

pytestmark = pytest.mark.airflow

CONNECTION = "AIRFLOW_CONN_LAKE"


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        yield running


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """An environment without credentials, which the test leaves as it was."""
    with patch.dict(os.environ), patch.object(storage_connection, "_used", set[str]()):
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ["STATEWARD_STORAGE_CONN_ID"] = "lake"
        yield


def connect(**changed: object) -> None:
    os.environ[CONNECTION] = json.dumps({"conn_type": "aws", "login": KEY, "password": SECRET} | changed)


def test_a_table_is_reached_with_the_keys_of_the_connection(store: ObjectStore) -> None:
    uri = f"s3://{BUCKET}/table"
    connect(extra={"endpoint_url": store.address, "region_name": "us-east-1"})
    use_storage(Settings())
    write_deltalake(uri, table({"a": [1]}))
    assert DeltaTable(uri).version() == 0


@pytest.mark.parametrize("place", ["environment", "database"])
def test_a_command_reaches_the_storage_with_them(
    store: ObjectStore, metadata_database: Path, tmp_path: Path, place: str
) -> None:
    os.environ |= {"STATEWARD_DATA": f"s3://{BUCKET}/data", "STATEWARD_HOME": str(tmp_path)}
    extra = {"endpoint_url": store.address, "region_name": "us-east-1"}
    connect(extra=extra)
    stored = Connection("lake", "aws", login=KEY, password=SECRET, extra=json.dumps(extra))
    if place == "database":
        del os.environ[CONNECTION]
        with create_session() as session:
            session.add(stored)
    try:
        asked = CliRunner().invoke(app, ["lease", "orders"])
    finally:
        with create_session() as session:
            session.execute(delete(Connection).where(Connection.conn_id == "lake"))
    assert (asked.exit_code, asked.exception) == (0, None), asked.output
    assert "orders: its lease was never held" in asked.output


def test_a_command_prints_nothing_but_its_answer(store: ObjectStore, tmp_path: Path) -> None:
    connect(extra={"endpoint_url": store.address, "region_name": "us-east-1"})
    settings = {"STATEWARD_DATA": f"s3://{BUCKET}/data", "STATEWARD_HOME": str(tmp_path)}
    command = [STATEWARD, "status", "--json"]
    run = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["home"] == str(tmp_path)


def test_a_command_keeps_the_keys_of_its_environment() -> None:
    os.environ["AWS_ACCESS_KEY_ID"] = "its own"
    connect()
    use_storage_in_command(Settings())
    assert os.environ["AWS_ACCESS_KEY_ID"] == "its own"


def test_a_driver_inherits_them_and_they_are_in_no_argument_and_no_document(tmp_path: Path) -> None:
    connect()
    settings = Settings()
    use_storage(settings)
    os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(
        {"conn_type": "spark", "host": "spark://master:7077"}
    )
    spec = small_spec(tmp_path).model_copy(update={"stream": STREAM})
    command = build_command(spec, settings, "run-1", code_in(tmp_path))
    assert command.environment["AWS_SECRET_ACCESS_KEY"] == SECRET
    written = " ".join(command.arguments) + json.dumps(resolved_configuration(spec, settings, "run-1"))
    assert SECRET not in written and KEY not in written
    assert CONNECTION not in command.environment


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"conn_type": "http"}, "expected the type 'aws', found 'http'"),
        ({"password": ""}, "expected an access key as login and its secret as password"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused(changed: dict[str, str], expected: str) -> None:
    connect(**changed)
    with pytest.raises(StorageConnectionError, match=expected):
        use_storage(Settings())


def test_a_connection_that_is_missing_is_named_with_the_remedy() -> None:
    with pytest.raises(StorageConnectionError, match=r"'lake', found none\. Create it under Admin"):
        use_storage(Settings())


def test_without_the_setting_the_environment_stays_as_it_is() -> None:
    connect()
    use_storage(Settings(storage_conn_id=None))
    assert not [name for name in os.environ if name.startswith("AWS_")]
