"""Settings of the section `[stateward]` of Airflow's configuration, and which source wins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stateward.contract.names import ENV_PREFIX
from stateward.project.airflow_options import option
from stateward.project.settings import CHECKOUT, Settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An AIRFLOW_HOME, and nothing of the environment besides."""
    for name in list(os.environ):
        if name.startswith((ENV_PREFIX, "AIRFLOW")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    return tmp_path


def configure(home: Path, text: str) -> None:
    (home / "airflow.cfg").write_text(text)


def test_an_option_is_a_setting(home: Path) -> None:
    configure(home, "[stateward]\nHome = /srv/s\nkafka_port = 2909\nmetrics_token = a%%b\n")
    settings = Settings()
    assert (settings.home, settings.kafka_port) == (Path("/srv/s"), 2909)
    assert settings.data == "file:///srv/s/data"
    assert settings.metrics_token is not None
    assert settings.metrics_token.get_secret_value() == "a%b"


def test_the_environment_wins_over_the_file_and_an_argument_over_both(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, "[stateward]\nkafka_port = 1001\nairflow_port = 1001\ndata = s3://of/file\n")
    monkeypatch.setenv("AIRFLOW__STATEWARD__KAFKA_PORT", "1002")
    monkeypatch.setenv("AIRFLOW__STATEWARD__AIRFLOW_PORT", "1002")
    monkeypatch.setenv("STATEWARD_KAFKA_PORT", "1003")
    settings = Settings()
    assert (settings.kafka_port, settings.airflow_port, settings.data) == (1003, 1002, "s3://of/file")
    assert Settings(kafka_port=1004).kafka_port == 1004


def test_a_change_of_the_file_counts_at_the_next_reading(home: Path) -> None:
    configure(home, "[stateward]\nkafka_port = 1001\n")
    assert Settings().kafka_port == 1001
    configure(home, "[stateward]\nkafka_port = 10020\n")
    assert Settings().kafka_port == 10020


def test_the_address_of_airflow_is_that_of_its_file(home: Path) -> None:
    configure(home, "[api]\nbase_url = https://data.example.com/airflow/\n")
    assert Settings().airflow_url == "https://data.example.com/airflow"
    configure(home, "[api]\nbase_url = https://data.example.com\n[stateward]\nairflow_url = https://of.us\n")
    assert Settings().airflow_url == "https://of.us"


def test_an_empty_option_and_a_missing_file_are_none(home: Path) -> None:
    assert option("stateward", "kafka_port") is None
    configure(home, "[stateward]\nkafka_port =\n[core]\nbroken = %(nothing)s\n")
    assert Settings().kafka_port == 19092


def test_a_variable_of_the_environment_is_put_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "s3://lake")
    configure(home, "[stateward]\ndata = $LAKE/streams\n")
    assert Settings().data == "s3://lake/streams"


def test_the_project_is_where_the_command_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "mine" / "include" / "streams"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    settings = Settings()
    assert settings.project == tmp_path / "mine"
    assert settings.streams == inside
    assert settings.home == tmp_path / "mine" / "var"
    assert settings.jobs == tmp_path / "mine" / "spark_jobs"


def test_elsewhere_it_is_the_repository_of_the_library_or_that_of_airflows_dags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "include" / "streams").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("/")
    assert Settings().project == CHECKOUT
    # As if it were installed.
    monkeypatch.setattr("stateward.project.settings.CHECKOUT", tmp_path / "elsewhere")
    assert Settings().project == tmp_path
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path / "elsewhere" / "dags"))
    assert Settings().project == Path("/")
