"""A machine without this checkout: a fresh virtual environment with Airflow, to which the wheel is added."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.wheel import ROOT, build_wheel

UV = Path(sys.executable).parent / "uv"
_PLUGINS = 8
# What an Airflow finds; printed as the last line. Two of its names are others with Airflow 3.1.
_FINDS = """
import json
import stateward
from airflow import plugins_manager
try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:
    from airflow.models.dagbag import DagBag
from airflow.providers_manager import ProvidersManager
bag = DagBag()
if hasattr(plugins_manager, "_get_plugins"):
    plugins, errors = plugins_manager._get_plugins()
else:
    plugins_manager.ensure_plugins_loaded()
    plugins, errors = plugins_manager.plugins, plugins_manager.import_errors
print(json.dumps({
    "library": stateward.__file__,
    "dags": sorted(bag.dags),
    "errors": {**bag.import_errors, **errors},
    "plugins": sorted(one.name for one in plugins if one.name.startswith("stateward")),
    "provider": ProvidersManager().providers["stateward"].version,
}))
"""


@dataclass(frozen=True)
class Machine:
    """A virtual environment, and the folder in which a person works.

    Attributes:
        folder: The folder.
        frozen: The packages of Airflow alone, as `pip freeze` lists them.
        name: The project's folder in it.
        enter: What a command begins with to run in another system, where the folder has the same path.
        uv: The command in that system.
    """

    folder: Path
    frozen: str = ""
    name: str = "shop"
    enter: tuple[str, ...] = ()
    uv: str | Path = UV

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def stateward(self) -> Path:
        return self.python.parent / "stateward"

    @property
    def project(self) -> Path:
        return self.folder / self.name

    @property
    def airflow_home(self) -> Path:
        """That of the project's own Airflow."""
        return self.folder / f"airflow-{self.name}"

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command with nothing of this process's environment that names the checkout."""
        where = cwd or self.folder
        return run(*self.entered(where), *command, cwd=where, environment=self.environment)

    def entered(self, cwd: Path) -> tuple[str, ...]:
        """What a command begins with that is to run in a folder of the machine."""
        return (*self.enter, str(cwd)) if self.enter else ()

    @property
    def environment(self) -> dict[str, str]:
        ours: tuple[str, ...] = ("AIRFLOW", "STATEWARD", "PYTHON", "VIRTUAL_ENV", "COV_", "PYTEST")
        # Another system has a Java of its own.
        ours += ("JAVA_HOME",) if self.enter else ()
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            "AIRFLOW_HOME": str(self.airflow_home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "VIRTUAL_ENV": str(self.folder / "venv"),
            "PATH": os.pathsep.join([str(self.python.parent), os.environ["PATH"]]),
        }

    def versions(self) -> dict[str, str]:
        """The version of each package that is installed."""
        lines = self.run(self.uv, "pip", "freeze").splitlines()
        return dict(line.split("==") for line in lines if "==" in line)

    def kept_versions(self) -> dict[str, str]:
        """The version of each package; the wheel has changed none of those of Airflow alone."""
        before = dict(line.split("==") for line in self.frozen.splitlines())
        now = self.versions()
        assert {name: now.get(name) for name in before} == before
        return now


def airflow_found(machine: Machine) -> dict[str, Any]:
    """Return the DAGs, plugins and provider that its Airflow finds without an error, all of the wheel."""
    found: dict[str, Any] = json.loads(machine.run(machine.python, "-c", _FINDS).splitlines()[-1])
    assert found["errors"] == {}
    assert found["library"].startswith(str(machine.folder / "venv"))
    assert len(found["plugins"]) == len(set(found["plugins"])) >= _PLUGINS
    assert found["provider"]
    return found


def passed(said: str) -> int:
    """Return how many tests passed, by what pytest has said."""
    [number] = re.findall(r"(\d+) passed", said)
    return int(number)


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def with_airflow_and_wheel(folder: Path, extras: str) -> Machine:
    """Install an Airflow alone, of the lock's versions, and then the wheel without changing one of them."""
    bare = Machine(folder)
    run(UV, "venv", "-q", "--python", sys.executable, folder / "venv", cwd=folder)
    # What an index offers can differ from one question to the next. The lock has a Spark provider for which
    # the extra `spark` is not made (docs/install-into-airflow.md).
    lock = [line.split()[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    pinned = [
        one for one in lock if "==" in one and not one.startswith("apache-airflow-providers-apache-spark")
    ]
    (folder / "lock.txt").write_text("\n".join(pinned))
    return add_wheel(bare, extras, "--constraint", "lock.txt", airflow=("apache-airflow>=3.3,<4",))


def add_wheel(bare: Machine, extras: str, *constraints: str, airflow: tuple[str, ...]) -> Machine:
    """Install an Airflow into an empty virtual environment, and then the wheel beside its versions.

    Args:
        bare: The machine.
        extras: Those of the wheel, by commas.
        constraints: Arguments of uv for both steps.
        airflow: The requirement, and further arguments for the first step.
    """
    wheel = build_wheel(bare.folder / "dist")
    bare.run(bare.uv, "pip", "install", "-q", *constraints, *airflow)
    machine = replace(bare, frozen=bare.run(bare.uv, "pip", "freeze"))
    (machine.folder / "airflow.txt").write_text(machine.frozen)
    install_wheel(machine, wheel, extras, *constraints)
    return machine


def install_wheel(machine: Machine, wheel: Path, extras: str, *arguments: str) -> None:
    """Install a wheel without changing a version of the machine's Airflow.

    Args:
        machine: Has its Airflow.
        wheel: The file.
        extras: Those of the wheel, by commas.
        arguments: Further ones of uv.
    """
    wanted = f"stateward[{extras}] @ {wheel.as_uri()}"
    machine.run(machine.uv, "pip", "install", "-q", "--constraint", "airflow.txt", *arguments, wanted)
