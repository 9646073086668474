"""docker-compose.yaml, without Docker: its schema, and that it says what the code reads."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.celery.get_provider_info import get_provider_info as celery_info

from stateward.contract.names import ENV_MANAGED, ENV_METRICS_TOKEN, ENV_PREFIX
from stateward.platform.parts.registry import AIRFLOW_PARTS, KAFKA, WORKER, launch_command
from stateward.project.airflow_options import connection_variable
from stateward.project.settings import Settings

ROOT = Path(__file__).resolve().parents[4]
FILE = ROOT / "docker-compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
PARTS = (KAFKA, *AIRFLOW_PARTS)
# The Celery executor has the tasks, and so the drivers, in a worker of their own.
SERVED = (*AIRFLOW_PARTS, WORKER)
# With two dollars it is the shell's of a container.
SECRET = re.compile(r"(?<!\$)\$\{([A-Z_]+):\?")
DEFAULT = re.compile(r"\$\{[A-Z_0-9]+:-([^}]*)\}")

PROFILE = "cluster"
SPARK_WORKERS = ("spark-worker-1", "spark-worker-2")
# What Spark's own worker reads of its environment.
SPARK_WORKER_VARIABLES = {
    "SPARK_DAEMON_MEMORY",
    "SPARK_LOCAL_IP",
    "SPARK_WORKER_CORES",
    "SPARK_WORKER_DIR",
    "SPARK_WORKER_MEMORY",
    "SPARK_WORKER_OPTS",
}
STORAGE = "s3"


def example(mark: str = "") -> dict[str, str]:
    """The values of `.env.example`: those that have to be given, or with a mark those that may be."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(re.findall(rf"^{mark}([A-Z0-9_]+)=(.*)$", "\n".join(lines), re.MULTILINE))


def by_default(value: object) -> str:
    """What a value is without variables in `.env`."""
    return DEFAULT.sub(r"\1", str(value))


def airflow_options() -> set[str]:
    """Every AIRFLOW__SECTION__OPTION that Airflow, its task SDK and the Celery provider know."""
    spec = importlib.util.find_spec("airflow")
    assert spec and spec.origin
    file = Path(spec.origin).parent / "config_templates" / "config.yml"
    return {
        f"AIRFLOW__{section}__{option}".upper()
        for section, body in {**yaml.safe_load(file.read_text()), **celery_info()["config"]}.items()
        for option in body["options"]
    }


def test_the_file_follows_the_compose_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_variable_is_one_that_the_code_reads() -> None:
    settings = {f"{ENV_PREFIX}{name}".upper() for name in Settings.model_fields}
    connections = {
        connection_variable(name) for name in (Settings.model_fields["spark_conn_id"].default, STORAGE)
    }
    known = settings | airflow_options() | connections | {"AIRFLOW_HOME"}
    known |= {ENV_MANAGED, "NO_PROXY", "no_proxy", "SPT_NOENV"}
    own = {
        "postgres": {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"},
        "init": {"AIRFLOW_ADMIN_PASSWORD"},
        "worker": {"SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"},
        # The S3 server has them in the file that its command writes.
        "s3": {"S3_ACCESS_KEY", "S3_SECRET_KEY"},
        "spark-master": {"SPARK_DAEMON_MEMORY"},
        **dict.fromkeys(SPARK_WORKERS, SPARK_WORKER_VARIABLES),
    }
    for name, service in SERVICES.items():
        unknown = set(service.get("environment", {})) - known - own.get(name, set())
        assert unknown == set(), f"{name}: nothing reads {sorted(unknown)}"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_service_runs_what_the_embedded_platform_runs(part: Any) -> None:
    service = SERVICES[part.name]
    assert service["command"][1:] == launch_command(part)[1:]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["image"] == SERVICES["scheduler"]["image"]


# What the embedded platform alone needs, and why.
EMBEDDED_ALONE = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": "PostgreSQL needs no patience with locks",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS_ASYNC": "the same",
    "JAVA_HOME": "the image has one Java, on its PATH",
}
# What both set, and each to a value of its own.
ADDRESSES = {
    "AIRFLOW__API__HOST",
    "AIRFLOW__API__BASE_URL",
    "AIRFLOW__CORE__EXECUTOR",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "NO_PROXY",
    "no_proxy",
}
SECRETS = {"AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET"}


def image_environment() -> dict[str, str]:
    """What the Dockerfile sets."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = re.findall(r"^ENV (.+)$", text, re.MULTILINE)
    return dict(word.split("=", 1) for line in lines for word in line.split())


@pytest.mark.parametrize("part", SERVED, ids=lambda part: part.name)
def test_each_part_of_airflow_has_all_that_the_embedded_platform_sets(part: Any, monkeypatch: Any) -> None:
    from stateward.platform.parts import airflow
    from stateward.platform.secrets import Secrets

    home, venv = Path("/var/lib/stateward"), Path("/opt/stateward/.venv")
    monkeypatch.setattr(airflow, "find_java", Path)
    monkeypatch.setattr(airflow, "library_path", lambda: (str(venv.parent),))
    monkeypatch.setattr("sys.executable", f"{venv}/bin/python")
    monkeypatch.setattr("os.environ", {})
    settings = Settings(home=home, project=venv.parent)
    embedded = airflow.environment(settings, Secrets("j", "s", "f", "p"))
    own = set(settings.environment()) - {"STATEWARD_HOME"}
    there = {**image_environment(), **SERVICES[part.name]["environment"]}

    wanted = set(embedded) - own
    assert wanted - set(there) == set(EMBEDDED_ALONE)
    for name in wanted & set(there) - ADDRESSES - SECRETS - {"PATH"}:
        assert by_default(there[name]).lower() == embedded[name].lower(), name
    assert there["PATH"].startswith(f"{venv}/bin:")


def test_there_is_time_for_all_that_a_stop_does() -> None:
    def grace_s(name: str) -> int:
        return int(SERVICES[name]["stop_grace_period"].removesuffix("s"))

    drain_s = Settings.model_fields["drain_timeout_s"].default
    # Longer than the parts take at most: Docker kills the whole container at the end of it.
    assert grace_s("worker") > WORKER.stop_wait_s + drain_s
    for part in PARTS:
        assert grace_s(part.name) > part.stop_wait_s, part.name


def test_the_drivers_are_drained_before_the_container_of_the_worker_ends() -> None:
    assert SERVICES["worker"]["command"][1:] == ["-m", "stateward.platform.container"]


def test_no_driver_is_in_the_container_of_another_part() -> None:
    assert SERVICES["scheduler"]["environment"]["AIRFLOW__CORE__EXECUTOR"] == "CeleryExecutor"
    assert "redis" in SERVICES["scheduler"]["environment"]["AIRFLOW__CELERY__BROKER_URL"]
    assert SERVICES["redis"]["networks"] == ["inside"]


def test_kafka_is_where_the_clients_look_for_it() -> None:
    kafka = SERVICES["kafka"]["environment"]
    bootstrap = f"{kafka['STATEWARD_BIND_HOST']}:{kafka['STATEWARD_KAFKA_PORT']}"
    assert SERVICES["scheduler"]["environment"]["STATEWARD_KAFKA_BOOTSTRAP"] == (
        f"${{KAFKA_BOOTSTRAP:-{bootstrap}}}"
    )
    assert SERVICES["scheduler"]["environment"]["STATEWARD_CREATE_TOPICS_AT"] == (
        f"${{CREATE_TOPICS_AT:-{bootstrap}}}"
    )
    # The service's own name has an address in each of its networks, and the broker is bound to one.
    having = [name for name, network in SERVICES["kafka"]["networks"].items() if "aliases" in network]
    assert having == ["inside"]
    assert SERVICES["kafka"]["networks"]["inside"]["aliases"] == [kafka["STATEWARD_BIND_HOST"]]


def test_no_secret_is_in_the_file_and_each_has_to_be_given() -> None:
    assert set(SECRET.findall(FILE.read_text())) == set(example())
    assert set(example().values()) == {""}
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD$|SECRET|_KEY$|SQL_ALCHEMY_CONN$|RESULT_BACKEND$", variable):
                if name == STORAGE:  # given with the profile only
                    assert value == f"${{{variable}:-}}"
                    continue
                assert SECRET.search(str(value)), f"{name}: {variable} has to come from the environment"


def test_the_token_of_the_metrics_is_the_api_servers_alone_and_may_be_left_out() -> None:
    having = {
        name for name, service in SERVICES.items() if ENV_METRICS_TOKEN in service.get("environment", {})
    }
    assert having == {"api-server"}
    assert SERVICES["api-server"]["environment"][ENV_METRICS_TOKEN] == "${METRICS_TOKEN:-}"
    assert "#METRICS_TOKEN=\n" in (ROOT / ".env.example").read_text()


def test_the_ui_and_the_broker_are_published_and_only_on_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"api-server", "kafka"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    # An internal network has no way to the host: what is published needs another one.
    for name in published:
        assert "outside" in SERVICES[name]["networks"], name


@pytest.mark.parametrize("part", SERVED, ids=lambda part: part.name)
def test_tasks_triggers_and_pages_reach_what_is_outside(part: Any) -> None:
    """Kafka (docs/kafka.md), mail and chat (docs/alerts.md), storage: none of it is in this file."""
    networks = SERVICES[part.name]["networks"]
    assert any(not (COMPOSE["networks"][name] or {}).get("internal") for name in networks)
    assert "inside" in networks
    assert SERVICES["postgres"]["networks"] == ["inside"]


def test_a_kafka_outside_is_named_in_the_environment_of_compose() -> None:
    environment = SERVICES["scheduler"]["environment"]
    assert environment["STATEWARD_KAFKA_BOOTSTRAP"] == "${KAFKA_BOOTSTRAP:-broker:19092}"
    # A broker on this machine, by the name that Docker Desktop has for it.
    assert "host.docker.internal:host-gateway" in SERVICES["scheduler"]["extra_hosts"]
    assert "#KAFKA_BOOTSTRAP=" in (ROOT / ".env.example").read_text()


def test_the_host_reaches_the_broker_under_the_address_that_it_gives() -> None:
    kafka = SERVICES["kafka"]
    assert kafka["environment"]["STATEWARD_KAFKA_PUBLISHED_AS"] == "localhost:${KAFKA_PORT:-19092}"
    inner = Settings.model_fields["kafka_published_port"].default
    assert kafka["ports"] == [f"127.0.0.1:${{KAFKA_PORT:-19092}}:{inner}"]
    assert "#KAFKA_PORT=19092\n" in (ROOT / ".env.example").read_text()


@pytest.mark.parametrize("part", SERVED, ids=lambda part: part.name)
@pytest.mark.parametrize("name", ["streams", "quality", "notifiers.yaml", "maintenance.yaml"])
def test_a_yaml_that_is_edited_here_is_the_one_that_each_part_reads(part: Any, name: str) -> None:
    """As a folder: of a single file a container keeps the one that an editor has replaced since."""
    service = SERVICES[part.name]
    there = service["environment"].get(
        f"STATEWARD_{name.removesuffix('.yaml').upper()}", f"/opt/stateward/include/{name}"
    )
    for source, target, mode in (one.split(":") for one in service["volumes"] if one.startswith("./")):
        if Path(there).is_relative_to(target):
            assert ROOT / source / Path(there).relative_to(target) == ROOT / "include" / name
            assert (ROOT / source).is_dir()
            assert mode == "ro"
            return
    raise AssertionError(f"{there} is baked into the image")


def test_images_are_pinned_and_state_is_in_named_volumes() -> None:
    found = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    base = {image for image, _ in found} - {stage for _, stage in found}
    for image in [*base, *(service["image"] for service in SERVICES.values())]:
        assert re.search(r":\d+\.\d+(\.\d+)?(-[a-z-]+)?$", image), f"{image}: pin a version"
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith("./include") or source in COMPOSE["volumes"], f"{name}: {volume}"


def test_the_image_is_built_from_the_locks() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for lock in ("requirements-image.txt", "requirements-spark.txt"):
        assert f"--require-hashes -r {lock}" in dockerfile
    assert "stateward jars" in dockerfile
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word
        for line in re.findall(r"^COPY --chown=stateward (.+)$", dockerfile, re.MULTILINE)
        for word in line.split()[:-1]
    }
    assert copied == kept
    assert all((ROOT / path).exists() for path in copied)
