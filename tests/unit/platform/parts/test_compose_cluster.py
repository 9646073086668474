"""The profile `cluster` of docker-compose.yaml, without Docker: Spark workers and an S3 server."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from stateward.cli.project.project_files import render
from stateward.platform.jars.fetch import S3_LOCK_FILE, read_lock
from stateward.project.airflow_options import SPARK_CONNECTION, connection_variable
from stateward.project.settings import Settings
from tests.unit.platform.parts.test_compose import (
    PROFILE,
    ROOT,
    SERVICES,
    SPARK_WORKERS,
    STORAGE,
    by_default,
    example,
)

OF_PROFILE = {name: service for name, service in SERVICES.items() if "profiles" in service}
OTHERS = {name: service for name, service in SERVICES.items() if name not in OF_PROFILE}
AIRFLOW: dict[str, Any] = SERVICES["worker"]["environment"]
DOCKERFILES = {
    "repository": (ROOT / "Dockerfile").read_text(),
    "project": render("project", {"project": "shop", "version": "1.0"})[Path("Dockerfile")],
}


def asked() -> dict[str, str]:
    """The values of `.env.example` that select the profile."""
    found = example("#")
    names = list(found)
    return {name: found[name] for name in names[names.index("COMPOSE_PROFILES") :]}


def connection(values: dict[str, str]) -> dict[str, Any]:
    """The connection of the S3 server with values of `.env`."""
    text = AIRFLOW[connection_variable(STORAGE)]
    return dict(json.loads(re.sub(r"\$\{([A-Z0-9_]+):-\}", lambda found: values[found[1]], text)))


def test_it_has_a_master_two_workers_and_a_storage_and_publishes_nothing() -> None:
    assert set(OF_PROFILE) == {"spark-master", *SPARK_WORKERS, STORAGE}
    for name, service in OF_PROFILE.items():
        assert service["profiles"] == [PROFILE] == [asked()["COMPOSE_PROFILES"]]
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert "ports" not in service, name
    assert SERVICES[STORAGE]["networks"] == SERVICES["spark-master"]["networks"] == ["inside"]


def test_without_it_everything_is_as_before() -> None:
    home = Path("/var/lib/stateward")
    assert by_default(AIRFLOW["STATEWARD_DATA"]) == Settings(home=home).data
    assert by_default(AIRFLOW["AIRFLOW_CONN_SPARK_DEFAULT"]) == SPARK_CONNECTION
    assert Settings(storage_conn_id=by_default(AIRFLOW["STATEWARD_STORAGE_CONN_ID"])).storage_conn_id is None
    # Compose passes on a variable without a value if .env has it.
    assert AIRFLOW["SPARK_LOCAL_IP"] is AIRFLOW["SPARK_LOCAL_HOSTNAME"] is None
    for name, service in OTHERS.items():
        needed = {one for one, how in service.get("depends_on", {}).items() if how.get("required", True)}
        assert not needed & set(OF_PROFILE), name


def test_the_example_of_its_variables_leads_to_its_services() -> None:
    values = asked()
    assert set(values) == {
        *("COMPOSE_PROFILES", "SPARK_MASTER", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"),
        *("DATA", "STORAGE_CONN_ID"),
        *("S3_ACCESS_KEY", "S3_SECRET_KEY"),
    }
    assert (values["S3_ACCESS_KEY"], values["S3_SECRET_KEY"]) == ("", "")

    master = SERVICES["spark-master"]["command"]
    assert values["SPARK_MASTER"] == f"spark://{master[master.index('--host') + 1]}:7077"
    assert SERVICES[SPARK_WORKERS[0]]["command"][-1] == values["SPARK_MASTER"]
    assert SERVICES["worker"]["networks"]["inside"]["aliases"] == [values["SPARK_LOCAL_IP"]]
    # Spark would look up another name for the address: that of the service, which has several.
    assert values["SPARK_LOCAL_HOSTNAME"] == values["SPARK_LOCAL_IP"]

    bucket = urlsplit(values["DATA"]).netloc
    assert f"/buckets/{bucket}\n" in SERVICES[STORAGE]["command"][-1]
    found = connection(values | {"S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret"})
    assert connection_variable(values["STORAGE_CONN_ID"]) in AIRFLOW
    assert (found["conn_type"], found["login"], found["password"]) == ("aws", "key", "secret")
    endpoint = urlsplit(found["extra"]["endpoint_url"])
    assert endpoint.hostname == STORAGE
    assert f"s3proxy.endpoint=http://0.0.0.0:{endpoint.port}\n" in SERVICES[STORAGE]["command"][-1]


@pytest.mark.parametrize("name", SPARK_WORKERS)
def test_a_worker_has_one_address_for_others_and_none_of_the_drivers_files(name: str) -> None:
    service = SERVICES[name]
    assert service["networks"]["inside"]["aliases"] == [service["environment"]["SPARK_LOCAL_IP"]]
    # Executors read a Kafka and a storage that are elsewhere, as drivers do.
    assert set(service["networks"]) == {"inside", "outside"}
    assert "volumes" not in service
    # The Python of executors is that of drivers, at the same path.
    assert service["image"] == SERVICES["worker"]["image"]


@pytest.mark.parametrize("name", ["worker", "scheduler", "spark-master", *SPARK_WORKERS])
def test_no_proxy_is_asked_for_them(name: str) -> None:
    exempt = SERVICES[name]["environment"]["NO_PROXY"].split("$")[0].split(",")
    assert {STORAGE, "spark-master"} <= set(exempt)


def test_the_drivers_are_drained_before_what_they_need_is_stopped() -> None:
    """Compose stops a service before those that it depends on."""
    needed = SERVICES["worker"]["depends_on"]
    assert {STORAGE, *SPARK_WORKERS} <= set(needed)
    assert "spark-master" in SERVICES[SPARK_WORKERS[0]]["depends_on"]


def test_the_storage_does_not_start_without_keys() -> None:
    script = SERVICES[STORAGE]["command"][-1].replace("$$", "$")
    run = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "", "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert "S3_SECRET_KEY: see .env.example" in run.stderr


@pytest.mark.parametrize("dockerfile", DOCKERFILES.values(), ids=DOCKERFILES.keys())
def test_each_target_is_a_stage_and_every_driver_has_the_client_of_the_storage(dockerfile: str) -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, re.MULTILINE))
    targets = {one["build"]["target"] for one in SERVICES.values() if isinstance(one.get("build"), dict)}
    assert targets == {STORAGE} <= stages
    sets = re.findall(r"stateward jars --set (\S+)", dockerfile)
    assert sorted(set(sets)) == sorted(read_lock(S3_LOCK_FILE)) == ["s3", "s3a"]
    # The client in every Python environment of drivers, and the server in one image.
    assert sorted(sets) == ["s3", *["s3a"] * dockerfile.count("python -m venv")]


def test_a_project_has_what_opens_the_storage() -> None:
    wanted = render("project", {"project": "shop", "version": "1.0"})[Path("requirements.txt")]
    assert "\ns3fs\n" in wanted
    assert yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["volumes"][STORAGE] == {}
