"""The walls of docs/architecture.md: what each room may not import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WALLS: dict[str, tuple[str, ...]] = {
    "dags": ("pyspark", "great_expectations", "deltalake", "spark_jobs"),
    "include": ("pyspark", "spark_jobs"),
    "include/settings.py": ("airflow",),
    "include/layout.py": ("airflow",),
    "include/spec.py": ("airflow",),
    "include/control": ("airflow",),
    "include/platform": ("airflow", "pyspark"),
    "include/traffic": ("airflow", "pyspark"),
    "include/backfill": ("airflow", "pyspark"),
    "include/maintenance": ("airflow", "pyspark"),
    "include/metrics": ("airflow", "pyspark"),
    "include/state": ("airflow", "pyspark"),
    "include/cli": ("airflow", "pyspark"),
    "spark_jobs": ("airflow", "include"),
    "stateward": ("airflow", "include", "pyspark", "spark_jobs"),
}
# The only file of its room that talks to Airflow: connections and the submit command are Airflow's.
EXEMPT = {"include/control": "launch.py"}

PURE = (
    "include/backfill/verdict.py",
    "include/backfill/window.py",
    "include/control/cause.py",
    "include/control/comeback.py",
    "include/control/decide.py",
    "include/control/documents.py",
    "include/control/health.py",
    "include/control/incident.py",
    "include/control/incident_words.py",
    "include/control/driver_exit.py",
    "include/control/failure.py",
    "include/control/last_words.py",
    "include/control/likely_cause.py",
    "include/control/outbox.py",
    "include/control/status.py",
    "include/control/thresholds.py",
    "include/control/wish.py",
    "include/maintenance/retention.py",
    "include/metrics/catalogue.py",
    "include/metrics/samples.py",
    "include/web/charts.py",
    "include/web/condition.py",
    "include/web/figures.py",
    "include/web/findings.py",
    "include/web/incidents.py",
    "include/web/link.py",
    "include/web/quality_charts.py",
    "include/web/quality_failures.py",
    "include/web/quality_history.py",
    "include/web/quality_rows.py",
    "include/web/quality_view.py",
    "include/web/stream_charts.py",
    "include/web/stream_history.py",
    "include/web/stream_view.py",
    "spark_jobs/runtime/admission.py",
    "spark_jobs/runtime/cause.py",
    "spark_jobs/runtime/conditions.py",
    "spark_jobs/runtime/lag.py",
    "spark_jobs/runtime/operator_measures.py",
    "spark_jobs/runtime/retries.py",
    "spark_jobs/runtime/offsets.py",
    "spark_jobs/runtime/keyed.py",
    "spark_jobs/runtime/key_filter.py",
    "spark_jobs/runtime/key_step.py",
    "spark_jobs/runtime/seed_rule.py",
    "spark_jobs/runtime/state_step.py",
    "spark_jobs/backfill/evidence.py",
    "spark_jobs/backfill/reach.py",
    "spark_jobs/quality/held.py",
    "spark_jobs/state/*findings.py",
    "spark_jobs/state/advice.py",
    "spark_jobs/state/changes.py",
    "spark_jobs/state/charts.py",
    "spark_jobs/state/checkpoint_interval.py",
    "spark_jobs/state/formats.py",
    "spark_jobs/state/measures.py",
    "spark_jobs/state/shape_changes.py",
    "spark_jobs/state/sizes.py",
    "spark_jobs/state/verdict.py",
    "spark_jobs/*/logic.py",
    "spark_jobs/*/machine.py",
    "spark_jobs/*/model.py",
    "spark_jobs/*/transitions.py",
    "spark_jobs/*/amounts.py",
    "spark_jobs/*/patterns.py",
    "stateward/contract/exit_codes.py",
    "stateward/contract/environment.py",
    "stateward/contract/table_names.py",
)


def python_files(room: str) -> list[Path]:
    path = ROOT / room
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, at module level or anywhere else, with its line."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            # Of `from spark_jobs.runtime import admission` the imported name may be the module.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name) for name in [node.module or "", *names])


def pure_files() -> list[Path]:
    return sorted(file for pattern in PURE for file in ROOT.glob(pattern))


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("room", WALLS)
def test_no_file_of_a_room_imports_what_the_room_may_not(room: str) -> None:
    files = [file for file in python_files(room) if file.name != EXEMPT.get(room)]
    assert files, f"no Python file in {room}: has it moved?"
    breaches = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if name.split(".")[0] in WALLS[room]
    ]
    assert breaches == []


def test_pure_modules_import_only_the_standard_library_and_each_other() -> None:
    files = pure_files()
    pure = {module_of(file) for file in files}
    assert len(pure) >= 5, f"where have the pure modules gone? Found {sorted(pure)}"
    breaches = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not any(name == module or name.startswith(f"{module}.") for module in pure)
        and not any(module.startswith(f"{name}.") for module in pure)
    ]
    assert breaches == []
