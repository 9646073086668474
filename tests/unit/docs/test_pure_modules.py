"""Pure modules (docs/architecture.md) and sizes; import-linter has the contracts between them."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# msgspec gives the contract its structs.
ALLOWED = {*sys.stdlib_module_names, "msgspec"}

PURE = (
    "stateward/control/jobs/backfill_verdict.py",
    "stateward/control/jobs/backfill_window.py",
    "stateward/control/reconcile/startup_probe.py",
    "stateward/control/sizing.py",
    "stateward/control/reconcile/decide.py",
    "stateward/control/health/health.py",
    "stateward/alerts/incident.py",
    "stateward/alerts/incident_text.py",
    "stateward/control/launchers/driver_exit.py",
    "stateward/contract/stream_control.py",
    "stateward/control/health/log_diagnosis.py",
    "stateward/control/health/diagnosis.py",
    "stateward/alerts/outbox.py",
    "stateward/contract/stream_status.py",
    "stateward/control/health/thresholds.py",
    "stateward/control/reconcile/desired_state.py",
    "stateward/maintenance/retention.py",
    "stateward/metrics/catalogue.py",
    "stateward/metrics/samples.py",
    "stateward/rendering/charts.py",
    "stateward/pages/streams/condition.py",
    "stateward/rendering/human_units.py",
    "stateward/rendering/page_address.py",
    "stateward/pages/streams/findings.py",
    "stateward/pages/streams/incidents.py",
    "stateward/pages/link.py",
    "stateward/pages/quality/charts.py",
    "stateward/pages/quality/failures.py",
    "stateward/pages/quality/history.py",
    "stateward/pages/quality/rows.py",
    "stateward/pages/quality/view.py",
    "stateward/pages/streams/history.py",
    "stateward/pages/streams/view.py",
    "stateward/runtime/watermark/admission.py",
    "stateward/runtime/cause.py",
    "stateward/runtime/keyed/log_index.py",
    "stateward/contract/conditions.py",
    "stateward/contract/measures.py",
    "stateward/contract/reading.py",
    "stateward/runtime/telemetry/lag.py",
    "stateward/runtime/telemetry/operator_metrics.py",
    "stateward/runtime/driver/retries.py",
    "stateward/runtime/checkpoint/offsets.py",
    "stateward/runtime/api/diagram.py",
    "stateward/runtime/api/key_logic.py",
    "stateward/runtime/api/key_filter.py",
    "stateward/runtime/api/key_step.py",
    "stateward/runtime/api/initial_state.py",
    "stateward/runtime/api/state_step.py",
    "stateward/recompute/evidence.py",
    "stateward/recompute/lookback.py",
    "stateward/quality/quarantine/quarantine_rules.py",
    "stateward/state/compatibility/*findings.py",
    "stateward/state/partitions/advice.py",
    "stateward/state/partitions/bucket_places.py",
    "stateward/contract/state_care.py",
    "stateward/control/care/cost.py",
    "stateward/control/care/policy.py",
    "stateward/state/inspection/state_changes.py",
    "stateward/state/partitions/checkpoint_interval.py",
    "stateward/state/reader/measures.py",
    "stateward/state/compatibility/shape_changes.py",
    "stateward/state/inspection/sizes.py",
    "stateward/state/inspection/evenness.py",
    "stateward/state/compatibility/verdict.py",
    "spark_jobs/*/logic.py",
    "spark_jobs/*/machine.py",
    "spark_jobs/*/model.py",
    "spark_jobs/*/transitions.py",
    "spark_jobs/*/amounts.py",
    "spark_jobs/*/patterns.py",
    "stateward/contract/process_output.py",
    "stateward/contract/privacy/erasing.py",
    "stateward/state/forget/subject.py",
    "stateward/contract/names.py",
    "stateward/contract/columns.py",
    "stateward/contract/stream_settings.py",
)


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, at module level or anywhere else, with its line."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            # In `from stateward.runtime.keyed import admission` the imported name is a module.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name) for name in [node.module or "", *names])


def pure_files() -> list[Path]:
    return sorted(file for pattern in PURE for file in ROOT.glob(pattern))


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def test_pure_modules_import_only_the_standard_library_and_each_other() -> None:
    files = pure_files()
    pure = {module_of(file) for file in files}
    assert len(pure) >= 5, f"expected at least five pure modules, found {sorted(pure)}"
    breaches = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imports(file)
        if name.split(".")[0] not in ALLOWED
        and not any(name == module or name.startswith(f"{module}.") for module in pure)
        and not any(module.startswith(f"{name}.") for module in pure)
    ]
    assert breaches == []


def test_no_package_has_more_than_fifteen_modules() -> None:
    """Decision 11 limits them."""
    folders = ("stateward", "spark_jobs", "proof", "benchmarks", "tests")
    modules = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    sizes = Counter(str(file.parent.relative_to(ROOT)) for file in modules if file.stem != "__init__")
    assert {folder: size for folder, size in sizes.items() if size > 15} == {}


def test_no_module_is_too_long() -> None:
    """A module of the library has at most 300 lines, one of the tests at most 400."""
    found = {
        str(file.relative_to(ROOT)): lines
        for folder, most in (("stateward", 300), ("spark_jobs", 300), ("dags", 300), ("tests", 400))
        for file in (ROOT / folder).rglob("*.py")
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > most
    }
    assert found == {}
