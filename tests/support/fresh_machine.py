"""A machine without this checkout: a fresh virtual environment with Airflow, to which the wheel is added."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.wheel import ROOT, build_wheel

UV = Path(sys.executable).parent / "uv"
_SPARK = "apache-airflow-providers-apache-spark"


@dataclass(frozen=True)
class Machine:
    """A virtual environment, and the folder in which a person works.

    Attributes:
        folder: The folder.
        frozen: The packages of Airflow alone, as `pip freeze` lists them.
        name: The project's folder in it.
    """

    folder: Path
    frozen: str = ""
    name: str = "shop"

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def project(self) -> Path:
        return self.folder / self.name

    @property
    def airflow_home(self) -> Path:
        """That of the project's own Airflow."""
        return self.folder / f"airflow-{self.name}"

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command with nothing of this process's environment that names the checkout."""
        return run(*command, cwd=cwd or self.folder, environment=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        ours = ("AIRFLOW", "STATEWARD", "PYTHON", "VIRTUAL_ENV", "COV_", "PYTEST")
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
        lines = self.run(UV, "pip", "freeze").splitlines()
        return dict(line.split("==") for line in lines if "==" in line)


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def with_airflow_and_wheel(folder: Path, extras: str) -> Machine:
    """Install an Airflow alone, of the lock's versions, and then the wheel without changing one of them."""
    wheel = build_wheel(folder / "dist")
    bare = Machine(folder)
    run(UV, "venv", "-q", "--python", sys.executable, folder / "venv", cwd=folder)
    # What an index offers can differ from one question to the next. The lock has a Spark provider for which
    # the extra `spark` is not made (docs/install-into-airflow.md).
    lock = [line.split()[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    pinned = [
        one for one in lock if "==" in one and not one.startswith("apache-airflow-providers-apache-spark")
    ]
    (folder / "lock.txt").write_text("\n".join(pinned))
    bare.run(UV, "pip", "install", "-q", "--constraint", "lock.txt", "apache-airflow>=3.3,<4")
    machine = replace(bare, frozen=bare.run(UV, "pip", "freeze"))
    (folder / "airflow.txt").write_text(machine.frozen)
    constraints = ("--constraint", "airflow.txt", "--constraint", "lock.txt")
    machine.run(UV, "pip", "install", "-q", *constraints, f"stateward[{extras}] @ {wheel.as_uri()}")
    return machine
