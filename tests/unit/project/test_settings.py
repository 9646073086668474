"""Settings and layout: what follows from what."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from stateward.contract.names import ENV_METRICS_TOKEN
from stateward.control.launchers.launch import resolved_configuration
from stateward.platform.parts.airflow import with_own_address
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import load_spec


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*Settings().environment(), "AIRFLOW__API__BASE_URL", "AIRFLOW__API__PORT"):
        monkeypatch.delenv(name, raising=False)


def test_everything_lives_in_the_checkout_by_default() -> None:
    settings = Settings()
    assert settings.home == CHECKOUT / "var"
    assert settings.data == f"file://{CHECKOUT}/var/data"


def test_data_and_addresses_follow_home_and_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWARD_HOME", "/srv/stateward")
    monkeypatch.setenv("STATEWARD_KAFKA_PORT", "29092")
    monkeypatch.setenv("STATEWARD_AIRFLOW_PORT", "28080")
    settings = Settings()
    assert settings.data == "file:///srv/stateward/data"
    assert settings.kafka_bootstrap == "localhost:29092"
    assert settings.airflow_url == settings.airflow_internal_url.replace("127.0.0.1", "localhost")
    assert settings.airflow_url == "http://localhost:28080"


@pytest.mark.parametrize(
    ("base_url", "public", "internal"),
    [
        (
            "https://data.example.com/airflow/",
            "https://data.example.com/airflow",
            "http://127.0.0.1:18080/airflow",
        ),
        ("https://data.example.com", "https://data.example.com", "http://127.0.0.1:18080"),
        ("/airflow", "http://localhost:9090/airflow", "http://127.0.0.1:18080/airflow"),
    ],
)
def test_the_address_of_airflow_is_its_own_base_url(
    monkeypatch: pytest.MonkeyPatch, base_url: str, public: str, internal: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    monkeypatch.setenv("AIRFLOW__API__PORT", "9090")
    assert (Settings().airflow_url, Settings().airflow_internal_url) == (public, internal)
    # `up` starts another Airflow than that of the shell.
    embedded = with_own_address(Settings(kafka_port=1234))
    assert (embedded.airflow_url, embedded.kafka_port) == ("http://localhost:18080", 1234)
    assert embedded.airflow_internal_url == "http://127.0.0.1:18080"
    monkeypatch.setenv("STATEWARD_AIRFLOW_URL", "https://streams.example.com/")
    assert Settings().airflow_url == with_own_address(Settings()).airflow_url == "https://streams.example.com"


@pytest.mark.parametrize(
    ("given", "embedded", "creates"),
    [
        ({}, True, True),
        ({"kafka_port": 29092}, True, True),
        ({"kafka_bootstrap": "kafka.example.com:9092"}, False, False),
        # Another broker on this machine.
        ({"kafka_bootstrap": "localhost:9092"}, False, False),
        ({"kafka_bootstrap": "kafka.example.com:9092", "embedded": True}, True, False),
        ({"kafka_bootstrap": "kafka.example.com:9092", "create_topics_at": "other:9092"}, False, False),
        ({"kafka_bootstrap": "k:9092", "create_topics_at": "k:9092"}, False, True),
        ({"kafka_bootstrap": "127.0.0.1:19092"}, True, True),
        ({"kafka_bootstrap": "10.0.0.7:19092", "bind_host": "10.0.0.7"}, True, True),
        ({"kafka_bootstrap": "localhost:19092", "embedded": False}, False, False),
    ],
)
def test_topics_are_created_in_the_own_broker_or_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, object], embedded: bool, creates: bool
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"STATEWARD_{name.upper()}", str(value))
    settings = Settings()
    assert (settings.embedded, settings.may_create_topics) == (embedded, creates)
    config = resolved_configuration(load_spec("user_sessions"), settings, "r1")
    assert config["create_topics"] is creates


def test_a_relative_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings(home=Path("here")).home == tmp_path / "here"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("/lake/", "file:///lake"), ("s3://bucket/lake/", "s3://bucket/lake"), ("file:///a b", "file:///a b")],
)
def test_data_is_a_uri_without_a_trailing_slash(given: str, expected: str) -> None:
    assert Settings(data=given).data == expected


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_an_impossible_port_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("STATEWARD_KAFKA_PORT", port)
    with pytest.raises(ValidationError, match="kafka_port"):
        Settings()


def test_the_environment_of_a_child_gives_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=Path("/srv/x"), kafka_port=1234, embedded=False, data="s3://b/c")
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings


def test_the_token_of_the_metrics_is_in_no_childs_settings_and_an_empty_one_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENV_METRICS_TOKEN, "s3cret")
    settings = Settings()
    assert settings.metrics_token is not None
    assert settings.metrics_token.get_secret_value() == "s3cret"
    assert ENV_METRICS_TOKEN not in settings.environment()
    assert "s3cret" not in f"{settings!r} {settings.environment()}"
    monkeypatch.setenv(ENV_METRICS_TOKEN, "")
    assert Settings().metrics_token is None


def test_the_layout_is_that_of_the_architecture_page() -> None:
    layout = Layout(Path("/h"), "s3://b/d")
    assert layout.table_uri("sessions") == "s3://b/d/tables/sessions"
    assert layout.checkpoint_uri("x") == "s3://b/d/checkpoints/x"
    assert layout.lease_uri("x") == "s3://b/d/leases/x"
    assert layout.status_uri("x") == "s3://b/d/status/x.json"
    assert layout.control_uri("x") == "s3://b/d/control/x.json"
    assert layout.config_uri("x") == "s3://b/d/control/x.config.json"
    assert layout.data_docs_uri == "s3://b/d/quality/docs"
    assert layout.driver_log_dir("x") == Path("/h/drivers/x")
    assert layout.cache_dir("x") == Path("/h/cache/x")


def test_savepoints_may_have_a_storage_of_their_own() -> None:
    apart = Layout.of(Settings(data="s3://b/d", savepoints="hdfs://nn:8020/kept/"))
    assert apart.savepoints_uri("x") == "hdfs://nn:8020/kept/x"
    assert apart.checkpoint_uri("x") == "s3://b/d/checkpoints/x"
    assert Layout.of(Settings(data="s3://b/d", savepoints="")).savepoints_uri("x") == "s3://b/d/savepoints/x"
