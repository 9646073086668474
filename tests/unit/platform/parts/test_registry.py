"""The platform's pure parts: configurations, ports, the lock, and telling processes apart."""

from __future__ import annotations

import configparser
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from stateward.cli.up import show_addresses
from stateward.platform.jars.java import parse_version
from stateward.platform.lock import LockTimeoutError, exclusive
from stateward.platform.parts import ports
from stateward.platform.parts.airflow import environment
from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import PortInUseError, free_ports, is_free, require_free
from stateward.platform.parts.registry import parts_of
from stateward.platform.parts.supervisord import render, socket_path
from stateward.platform.secrets import Secrets
from stateward.project.layout import Layout
from stateward.project.settings import Settings

SECRETS = Secrets("jwt", "session", "fernet", "password")


def test_the_supervisor_runs_every_part_restarts_it_and_ends_its_whole_group(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "100% mine")
    parser = configparser.ConfigParser(inline_comment_prefixes=(" ;",))
    parser.read_string(render(settings))
    for part in parts_of(settings):
        section = parser[f"program:{part.name}"]
        assert section["autorestart"] == "true"
        assert section["stopasgroup"] == section["killasgroup"] == "true"
        assert section["stdout_logfile"].startswith(str(settings.home)), "a percent sign survives expansion"


def test_a_broker_of_someone_else_is_not_started() -> None:
    names = [part.name for part in parts_of(Settings(embedded=False))]
    assert "kafka" not in names
    assert "scheduler" in names


def test_a_long_home_gets_a_short_socket_of_its_own() -> None:
    long = [Layout(Path("/" + "x" * 200) / name, "") for name in "ab"]
    paths = [socket_path(layout) for layout in long]
    assert all(len(os.fsencode(path)) < 100 for path in paths)
    assert paths[0] != paths[1]
    assert socket_path(Layout(Path("/h"), "")) == Path("/h/supervisor/supervisor.sock")


def test_the_broker_binds_where_it_is_told_and_takes_five_megabytes() -> None:
    broker = Broker(Path("/h/kafka"), Path("/jars"), "127.0.0.1", 19092, 19093)
    lines = broker.properties().splitlines()
    assert all(line.count("=") >= 1 for line in lines)
    properties = dict(line.split("=", 1) for line in lines)
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    assert int(properties["message.max.bytes"]) > 5 * 1024 * 1024
    assert properties["auto.create.topics.enable"] == "false"
    assert properties["log.message.timestamp.type"] == "LogAppendTime"


def test_a_published_broker_gives_each_client_the_address_that_it_can_reach() -> None:
    settings = Settings(bind_host="kafka", kafka_published_as="localhost:9092", kafka_published_port=19094)
    properties = dict(line.split("=", 1) for line in Broker.of(settings).properties().splitlines())
    assert properties["listeners"] == (
        "PLAINTEXT://kafka:19092,CONTROLLER://kafka:19093,PUBLISHED://0.0.0.0:19094"
    )
    assert properties["advertised.listeners"] == "PLAINTEXT://kafka:19092,PUBLISHED://localhost:9092"
    assert "PUBLISHED:PLAINTEXT" in properties["listener.security.protocol.map"]


def test_a_broker_on_every_address_is_advertised_by_one_that_can_be_reached() -> None:
    properties = Broker(Path("/h"), Path("/j"), "0.0.0.0", 1, 2).properties()
    assert "listeners=PLAINTEXT://0.0.0.0:1" in properties
    assert "advertised.listeners=PLAINTEXT://localhost:1" in properties


def test_parts_get_our_settings_whatever_the_shell_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", "/somewhere/else")
    monkeypatch.setenv("NO_PROXY", "example.org")
    settings = Settings(home=tmp_path, airflow_port=28080)
    environ = environment(settings, SECRETS)
    assert environ["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert environ["AIRFLOW__API__PORT"] == "28080"
    assert environ["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:28080/execution/"
    assert environ["STATEWARD_HOME"] == str(tmp_path)
    assert environ["NO_PROXY"].split(",")[0] == "example.org"
    assert "127.0.0.1" in environ["NO_PROXY"].split(",")


def test_a_spark_connection_of_the_user_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert "local[*,4]" in environment(settings, SECRETS)["AIRFLOW_CONN_SPARK_DEFAULT"]
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    assert environment(settings, SECRETS)["AIRFLOW_CONN_SPARK_DEFAULT"] == "spark://master:7077"


def test_secrets_are_made_once(tmp_path: Path) -> None:
    first = Secrets.load_or_create(tmp_path)
    assert Secrets.load_or_create(tmp_path) == first
    assert len({first.jwt_secret, first.session_key, first.fernet_key, first.admin_password}) == 4


def test_commands_at_once_do_not_take_each_others_files(tmp_path: Path) -> None:
    first = Secrets.load_or_create(tmp_path)
    with ThreadPoolExecutor(8) as commands:
        found = list(commands.map(lambda _: Secrets.load_or_create(tmp_path), range(400)))
    assert set(found) == {first}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["passwords.json", "secrets.json"]


def test_the_login_is_said_again_by_each_up(tmp_path: Path) -> None:
    settings, said = Settings(home=tmp_path), []
    for _ in range(2):
        output = StringIO()
        show_addresses(Console(file=output, width=200), settings)
        said.append(output.getvalue())
    password = Secrets.load_or_create(Layout.of(settings).airflow_home).admin_password
    assert said[0] == said[1]
    assert f"login admin / {password}" in said[0]


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no java here", None),
    ],
)
def test_the_java_version_is_read_from_its_output(output: str, version: int | None) -> None:
    assert parse_version(output) == version


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(map(is_free, ports))


def test_a_free_port_is_none_that_an_outgoing_connection_may_take() -> None:
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert max(free_ports(50)) < int(first)


def test_a_taken_port_is_named_with_its_owner_and_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError) as caught:
            require_free({"STATEWARD_KAFKA_PORT": port})
        require_free({"STATEWARD_KAFKA_PORT": port}, ignore_pids={os.getpid()})
    text = str(caught.value)
    assert str(port) in text
    assert f"pid {os.getpid()}" in text
    assert "STATEWARD_KAFKA_PORT" in text


def test_a_port_that_a_killed_process_still_has_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    looks = iter((False, False, True))
    monkeypatch.setattr(ports, "is_free", lambda *_: next(looks))
    require_free({"STATEWARD_KAFKA_PORT": port})
    assert list(looks) == []
    monkeypatch.setattr(ports, "is_free", lambda *_: False)
    monkeypatch.setattr(ports, "_ENDING_S", 0.0)
    with pytest.raises(PortInUseError, match=f"port {port} is in use by another process"):
        require_free({"STATEWARD_KAFKA_PORT": port})


def test_one_port_for_two_parts_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(PortInUseError, match=r"both STATEWARD_A and STATEWARD_B"):
        require_free({"STATEWARD_A": port, "STATEWARD_B": port})


def test_the_lock_is_held_by_one_and_leaves_no_file(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        exclusive(tmp_path, 1),
        pytest.raises(LockTimeoutError, match="stateward up"),
        exclusive(tmp_path, 0.05, lambda: told.append("waiting")),
    ):
        pass
    assert told == ["waiting"]
    with exclusive(tmp_path, 0.05):
        assert list(tmp_path.iterdir()) == []
