"""What a driver's pod is submitted with: its name, its labels, its code, and the time to drain."""

from __future__ import annotations

import re
import zipfile
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateward.contract.names import ENV_KAFKA_CLIENT, is_kubernetes
from stateward.contract.storage import read_bytes
from stateward.control.launchers.driver_process import LaunchError
from stateward.control.launchers.kubernetes_submit import (
    api_server,
    in_pod,
    pod_conf,
    pod_name,
    storage_in_pods,
)
from stateward.control.releases import release as releases
from stateward.control.releases.release_storage import StoredCode, stored_code
from stateward.project.layout import Layout
from stateward.project.settings import CHECKOUT, Settings
from stateward.project.spec import StreamSpec, load_spec

STREAM = "user_sessions"
RUN = "20261126T120000-ab12cd34"
SENT = StoredCode("hdfs://n/data/releases/code/c-0.2.0.l.zip", "hdfs://n/data/releases/code/c-0.2.0.l.py")
IMAGE = {"spark.kubernetes.container.image": "registry.example.org/stateward-spark:1"}
TEMPLATE = CHECKOUT / "docs" / "kubernetes" / "pod-template.yaml"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def spec(settings: Settings) -> StreamSpec:
    return load_spec(STREAM, settings.streams)


def with_health(spec: StreamSpec, **health: timedelta) -> StreamSpec:
    return spec.model_copy(update={"health": spec.health.model_copy(update=health)})


def template_of(conf: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(Path(conf["spark.kubernetes.driver.podTemplateFile"]).read_text())
    return found


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("k8s://https://10.0.0.1:6443", "https://10.0.0.1:6443"),
        ("k8s://kubernetes.default.svc", "https://kubernetes.default.svc"),
        ("k8s://http://localhost:8001/", "http://localhost:8001"),
    ],
)
def test_the_api_server_is_the_one_that_the_master_names(master: str, address: str) -> None:
    assert is_kubernetes(master) and not is_kubernetes("spark://10.0.0.1:7077")
    assert api_server(master) == address


@pytest.mark.parametrize("stream", ["user_sessions", "s"])
def test_a_pod_has_a_name_that_kubernetes_takes(stream: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", pod_name(stream, RUN))
    assert pod_name(stream, RUN) != pod_name(stream, RUN[:-1])


def test_a_pod_is_found_again_by_its_labels_and_brings_its_release(
    spec: StreamSpec, settings: Settings
) -> None:
    conf = pod_conf(spec, settings, RUN, SENT, IMAGE)
    for role in ("driver", "executor"):
        assert conf[f"spark.kubernetes.{role}.label.stateward.stream"] == STREAM
        assert conf[f"spark.kubernetes.{role}.label.stateward.run-id"] == RUN
    assert conf["spark.kubernetes.driver.pod.name"] == pod_name(STREAM, RUN)
    assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert conf["spark.submit.pyFiles"] == SENT.zip
    assert conf["spark.executorEnv.PYTHONPATH"] == "c-0.2.0.l.zip"


def test_a_drain_has_the_time_after_which_a_driver_ends_itself(spec: StreamSpec, settings: Settings) -> None:
    slow = with_health(spec, stop_deadline=timedelta(minutes=5), kill_grace=timedelta(seconds=20))
    pod = template_of(pod_conf(slow, settings, RUN, SENT, IMAGE))["spec"]
    assert pod == {"terminationGracePeriodSeconds": 300 + 2 * 20 + 10}


def test_the_projects_template_is_kept_beside_that(
    spec: StreamSpec, settings: Settings, tmp_path: Path
) -> None:
    client = Path("/etc/stateward/kafka/client.properties")
    own = settings.model_copy(update={"pod_template": TEMPLATE, "kafka_client": client})
    conf = pod_conf(spec, own, RUN, SENT, IMAGE)
    theirs, ours = yaml.safe_load(TEMPLATE.read_text()), template_of(conf)
    assert ours["spec"].pop("terminationGracePeriodSeconds") > 0
    assert ours == theirs
    assert conf[f"spark.kubernetes.driverEnv.{ENV_KAFKA_CLIENT}"] == str(client)
    # Longer than ours: theirs.
    longer = tmp_path / "longer.yaml"
    longer.write_text("spec: {terminationGracePeriodSeconds: 3600}")
    own = settings.model_copy(update={"pod_template": longer})
    assert template_of(pod_conf(spec, own, RUN, SENT, IMAGE))["spec"] == {
        "terminationGracePeriodSeconds": 3600
    }


@pytest.mark.parametrize("text", [None, "[", "- spec", "spec: []"])
def test_a_template_that_is_none_is_refused(
    spec: StreamSpec, settings: Settings, tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "pod.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(LaunchError, match=rf"stream {STREAM}: expected .* {file}"):
        pod_conf(spec, settings.model_copy(update={"pod_template": file}), RUN, SENT, IMAGE)


def test_without_an_image_there_is_no_pod(spec: StreamSpec, settings: Settings) -> None:
    with pytest.raises(
        LaunchError, match=r"expected the image of its pods, found none\. Set executor_python"
    ):
        pod_conf(spec, settings, RUN, SENT, {})


def test_what_the_stream_sets_wins_but_not_over_what_a_pod_is_found_by(
    spec: StreamSpec, settings: Settings
) -> None:
    account, name = (
        "spark.kubernetes.authenticate.driver.serviceAccountName",
        "spark.kubernetes.driver.pod.name",
    )
    theirs = spec.spark.model_copy(update={"conf": {account: "mine", name: "mine"}})
    conf = pod_conf(spec.model_copy(update={"spark": theirs}), settings, RUN, SENT, IMAGE)
    assert conf[account] == "mine"
    assert conf[name] == pod_name(STREAM, RUN)


def test_a_release_is_stored_with_what_runs_it(settings: Settings) -> None:
    kept = releases.keep(STREAM, settings)
    releases.store(STREAM, kept, settings)
    stored = stored_code(Layout.of(settings), kept.code)
    packed, entry = read_bytes(stored.zip), read_bytes(stored.entry)
    assert packed is not None and entry is not None
    names = zipfile.ZipFile(BytesIO(packed)).namelist()
    assert {"stateward/driver.py", f"spark_jobs/{STREAM}/declaration.py"} <= set(names)
    assert entry == (kept.code / "stateward" / "driver.py").read_bytes()


def test_a_mounted_folder_is_not_uploaded() -> None:
    assert in_pod("file:///srv/data/a.zip") == "local:///srv/data/a.zip"
    assert in_pod(SENT.zip) == SENT.zip


def test_a_pod_is_told_where_s3_is_and_no_key_of_it() -> None:
    told = {"AWS_ENDPOINT_URL": "https://s3.example.org", "AWS_REGION": "eu-central-1"}
    conf = storage_in_pods({**told, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden"})
    assert {name: conf[f"spark.kubernetes.driverEnv.{name}"] for name in told} == told
    assert not {"key", "hidden"} & set(conf.values())
    # The driver's code has this scheme.
    assert conf["spark.hadoop.fs.s3.impl"].endswith("S3AFileSystem")
