"""What `stateward validate` says of Airflow connections that do not exist."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest
import yaml

from stateward.cli.streams.connections import check_connections
from stateward.project.settings import Settings
from stateward.project.spec import load_specs
from tests.support.small_spec import SMALL

CREATE = "Create it under Admin > Connections, or set AIRFLOW_CONN_"


@pytest.fixture(autouse=True)
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an Airflow, and nothing of the environment besides."""
    for name in list(os.environ):
        if name.startswith(("STATEWARD_", "AIRFLOW")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    (tmp_path / "airflow").mkdir()
    return tmp_path / "airflow"


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    folder = tmp_path / "include" / "streams"
    folder.mkdir(parents=True)
    return folder


def declare(streams: Path, name: str, **sections: object) -> Path:
    file = streams / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**SMALL, "stream": name, **sections}, sort_keys=False))
    return file


def has(folder: Path, *conn_ids: str) -> str:
    """Make a metadata database with connections, and return its address."""
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / "airflow.db") as database:
        database.execute("CREATE TABLE connection (id INTEGER, conn_id TEXT)")
        database.executemany("INSERT INTO connection VALUES (0, ?)", [(one,) for one in conn_ids])
    database.close()
    return f"sqlite:///{folder / 'airflow.db'}"


def checked(streams: Path) -> tuple[list[str], list[str]]:
    specs, problems = load_specs(streams)
    assert problems == []
    return check_connections(Settings(project=streams.parents[1]), specs)


def test_a_connection_is_named_with_file_line_and_remedy(streams: Path, airflow: Path) -> None:
    file = declare(streams, "b", spark={"conn_id": "cluster"})
    declare(streams, "a", owner="me")
    declare(streams, "c", description="C.", spark={"driver_memory": "2g", "conn_id": "cluster"})
    database = has(airflow, "spark_default", "kafka_default")
    line = file.read_text().splitlines().index("  conn_id: cluster") + 1
    assert checked(streams) == (
        [
            f"{file}:{line}: spark.conn_id: expected the Airflow connection 'cluster', found none in the"
            f" environment of this command or in {database}. {CREATE}CLUSTER="
            f'\'{{"conn_type": "spark", "host": "local[*,4]"}}\'. c.yaml:{line + 1} name it too.'
        ],
        [],
    )


def test_the_default_is_named_where_the_file_names_none(streams: Path, airflow: Path) -> None:
    file = declare(streams, "a", spark={"driver_memory": "2g"})
    declare(streams, "b")
    has(airflow, "another")
    [problem], notes = checked(streams)
    assert problem.startswith(
        f"{file}: spark.conn_id: expected the Airflow connection 'spark_default', which is the default, found"
    )
    assert f"{CREATE}SPARK_DEFAULT=" in problem and problem.endswith(" b.yaml name it too.")
    assert notes == []


def test_a_connection_may_be_in_the_environment_or_in_the_database(
    streams: Path, airflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(streams, "a")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://host")
    assert checked(streams) == ([], [])
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "")
    address = has(airflow.parent / "elsewhere", "spark_default")
    (airflow / "airflow.cfg").write_text(f"[database]\nsql_alchemy_conn = {address}\n")
    assert checked(streams) == ([], [])


def test_what_cannot_be_asked_is_noted_and_is_no_problem(
    streams: Path, airflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(streams, "a")

    def note() -> str:
        problems, [note] = checked(streams)
        assert problems == []
        assert note.startswith("Not checked: the Airflow connection spark_default. ")
        return note

    assert "There is no database of Airflow at" in note()
    (airflow / "airflow.db").touch()
    assert "(OperationalError). Call `airflow db check`." in note()
    (airflow / "airflow.db").unlink()
    has(airflow, "another")
    (airflow / "airflow.cfg").write_text("[secrets]\nbackend = vault.VaultBackend\n")
    assert "The secrets backend vault.VaultBackend may have it" in note()
    (airflow / "airflow.cfg").write_text("[database]\nsql_alchemy_conn_cmd = cat address\n")
    assert "Set AIRFLOW__DATABASE__SQL_ALCHEMY_CONN." in note()
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "unknown://user:s3cret@host/db")
    assert "Airflow's database cannot be asked" in note()
    assert "s3cret" not in note()
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert "Airflow is not installed" in note()


def test_a_secrets_backend_is_not_named_for_what_the_database_has(streams: Path, airflow: Path) -> None:
    declare(streams, "a")
    declare(streams, "b", spark={"conn_id": "cluster"})
    has(airflow, "spark_default")
    (airflow / "airflow.cfg").write_text("[secrets]\nbackend = vault.VaultBackend\n")
    problems, [note] = checked(streams)
    assert problems == []
    assert "spark_default" not in note and "`airflow connections get cluster`" in note


def test_the_embedded_airflow_brings_its_connection_along(
    streams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_HOME")
    declare(streams, "a")
    embedded = has(streams.parents[1] / "var" / "airflow")
    assert checked(streams) == ([], [])
    declare(streams, "b", spark={"conn_id": "cluster"})
    [problem], _ = checked(streams)
    assert "'cluster'" in problem and embedded in problem


def test_a_kafka_connection_has_to_exist_if_a_setting_names_it(
    streams: Path, airflow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(streams, "a")
    has(airflow, "spark_default")
    assert checked(streams) == ([], [])
    (airflow / "airflow.cfg").write_text("[stateward]\nkafka_conn_id = events\n")
    [problem], _ = checked(streams)
    assert problem.startswith(
        "setting kafka_conn_id: expected the Airflow connection 'events', found none in"
    )
    assert f'{CREATE}EVENTS=\'{{"conn_type": "kafka"' in problem
    # With an address no connection is used.
    monkeypatch.setenv("STATEWARD_KAFKA_BOOTSTRAP", "kafka:9092")
    assert checked(streams) == ([], [])
