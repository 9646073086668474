"""From nothing, without this checkout: a stream of one's own under an Airflow of one's own, from the wheel.

Kafka is an Airflow connection with a password; no `STATEWARD_KAFKA_*` is set. The project of this repository
is run in the same way, by a user who has its folders and the wheel.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from stateward.contract.storage import read_json
from stateward.project.layout import Layout
from tests.support.fresh_machine import Machine, with_airflow_and_wheel
from tests.support.full import only_full
from tests.support.kafka.secured_broker import PASSWORD
from tests.support.users_project import EVENTS, SHOP, Case, Site, site_of
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.wheel import ROOT

pytestmark = [pytest.mark.e2e, only_full, pytest.mark.timeout(2400)]


def this_project(machine: Machine) -> None:
    """Copy what this repository's project is, without the library."""
    for folder in ("dags", "spark_jobs", "include"):
        shutil.copytree(ROOT / folder, machine.project / folder)


CASES = (
    SHOP,
    Case(
        "example",
        this_project,
        *("user_sessions", "user_events", "user_id", "sessions", "event_count"),
        rows=[("a", 3), ("b", 1)],
        streams=10,
    ),
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return with_airflow_and_wheel(tmp_path_factory.mktemp("machine"), "airflow,spark,quality,dev")


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def site(
    request: pytest.FixtureRequest, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with site_of(request.param, machine, tmp_path_factory.mktemp("kafka")) as site:
        yield site


def test_a_stream_is_supervised_and_its_table_validated_then_removed(site: Site) -> None:
    case, airflow, layout = site.case, site.airflow, site.layout
    assert not [name for name in airflow.environment if name.startswith("STATEWARD_KAFKA")]
    valid = "1 stream is valid" if case.streams == 1 else f"{case.streams} streams are valid"
    assert valid in airflow.command("stateward", "validate")
    with airflow.api() as api:
        airflow.unpause(f"stream_{case.stream}")
        assert api.import_errors() == []
    airflow.command("stateward", "start", case.stream)
    site.send(EVENTS)
    site.wait_for_rows(case.rows)
    assert f"{case.stream}: compatible; nothing changes." in airflow.command("stateward", "plan", case.stream)
    airflow.command("stateward", "stop", case.stream)

    validated = validate_table(site)
    assert validated["passed"] is True and validated["table"] == case.table
    assert passwords_in(layout) == []

    airflow.command("stateward", "remove", case.stream, "--yes")
    assert read_json(layout.control_uri(case.stream)) is None
    assert site.rows() == case.rows
    # From nothing: the topic is read from its beginning again, beside the rows that were kept.
    airflow.command("stateward", "start", case.stream)
    site.wait_for_rows(sorted(2 * case.rows))
    airflow.command("stateward", "stop", case.stream)
    assert site.topics() == case.topics


def validate_table(site: Site) -> dict[str, Any]:
    """Let the quality DAG validate the table, and return the record of the run."""
    airflow, dag_id = site.airflow, f"quality_{site.case.stream}"
    airflow.unpause(dag_id)
    with airflow.api() as api:
        run = api.trigger(dag_id, {})
        wait_until(
            lambda: api.run_state(dag_id, run) in ("success", "failed"),
            PATIENCE_S,
            lambda: f"{dag_id} ends; found {api.task_states(dag_id, run)}",
            poll_s=1,
        )
        logs = sorted(airflow.machine.airflow_home.glob(f"logs/dag_id={dag_id}/**/*.log"))
        text = logs[-1].read_text()[-6000:] if logs else "no log"
        assert api.run_state(dag_id, run) == "success", text
    table = DeltaTable(site.layout.table_uri("quality_validations"))
    found: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return found[-1]


def passwords_in(layout: Layout) -> list[Path]:
    """Return the files of the installation, other than the one for it, that have the password."""
    texts = (".json", ".log", ".yaml")
    files = [path for path in layout.home.rglob("*") if path.is_file() and path.suffix in texts]
    return [path for path in files if PASSWORD in path.read_text(errors="replace")]
