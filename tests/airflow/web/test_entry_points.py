"""What Airflow finds of the library as it is installed here, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from stateward.project.settings import Settings
from tests.airflow.conftest import ROOT

pytestmark = pytest.mark.airflow

PLUGINS = [
    *("data_docs", "erased_keys", "one_write", "quality_page", "spark_ui", "state_operations"),
    *("stream_metrics", "streams_page"),
]
PROGRAM = """
import json
from importlib import import_module
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
plugins, errors = plugins_manager._get_plugins()
manager = ProvidersManager()
ours = manager.providers["stateward"].data
for group in (*ours["operators"], *ours["triggers"]):
    for module in group["python-modules"]:
        import_module(module)
manager.initialize_providers_configuration()
print(json.dumps({
    "plugins": [plugin.name for plugin in plugins],
    "errors": errors,
    "links": manager.extra_links_class_names,
    "notifiers": [str(one) for one in manager.notification],
    "options": dict(manager.provider_configs)["stateward"]["stateward"]["options"],
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("installed")
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder / "none"),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return read


def test_each_plugin_is_loaded_once(found: dict[str, Any]) -> None:
    assert sorted(name for name in found["plugins"] if name.startswith("stateward")) == [
        f"stateward_{name}" for name in PLUGINS
    ]
    assert found["errors"] == {}
    files = {file.stem for file in (ROOT / "stateward" / "airflow" / "plugins").glob("[a-z]*.py")}
    assert len(PLUGINS) == len(files), "a plugin without an entry point in pyproject.toml"


def test_the_provider_has_its_links_and_notifiers(found: dict[str, Any]) -> None:
    links = {name.rpartition(".")[2] for name in found["links"] if name.startswith("stateward.")}
    assert links == {"DataDocsLink", "QualityOverviewLink", "ResultPageLink"}
    notifiers = [name for name in found["notifiers"] if "stateward." in name]
    assert {name.rpartition(".")[2].rstrip("'>") for name in notifiers} == {
        "JsonLinesNotifier",
        "TaskLogNotifier",
    }


def test_each_setting_is_an_option_with_a_description_and_secrets_are_sensitive(
    found: dict[str, Any],
) -> None:
    options = found["options"]
    assert set(options) == set(Settings.model_fields)
    assert all(option["description"] for option in options.values())
    assert {name for name, option in options.items() if option["sensitive"]} == {
        "metrics_token",
        "mask_secret",
    }
