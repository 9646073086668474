"""docs/private-apis.md lists every private name of a library that stateward/ uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "private-apis.md"
LIBRARIES = ("airflow", "confluent_kafka", "delta", "deltalake", "great_expectations", "py4j", "pyspark")
# Modules without a leading underscore that their projects do not document as public.
INTERNAL = (
    "airflow.api_fastapi",
    "airflow.configuration",
    "airflow.models",
    "airflow.sdk.execution_time",
    "great_expectations.data_context.types",
    "great_expectations.render.view",
    "great_expectations.validator",
    "pyspark.daemon",
    "pyspark.java_gateway",
)
# Documented with an underscore by the standard library: named tuples and `os._exit`.
PUBLIC = {"_asdict", "_exit", "_field_defaults", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def is_own(value: ast.expr) -> bool:
    """Whether an attribute is one of the class itself: of `self`, `cls` or `super()`."""
    return ast.unparse(value) in ("self", "cls", "super()")


def private_names(code: str) -> Iterator[str]:
    """Private attributes of other objects, and private modules and names of the libraries."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(value=value, attr=name) if is_private(name) and not is_own(value):
                yield name
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]
            ):
                if is_private(name):
                    yield name
            case ast.Import(names=names):
                yield from (found for alias in names for found in private_module(alias.name))
            case ast.ImportFrom(module=str(module), names=names):
                yield from private_module(module)
                if module.split(".")[0] in LIBRARIES:
                    yield from (alias.name for alias in names if is_private(alias.name))


def private_module(module: str) -> Iterator[str]:
    if module.split(".", maxsplit=1)[0] not in LIBRARIES:
        return
    yield from (internal for internal in INTERNAL if f"{module}.".startswith(f"{internal}."))
    if any(is_private(part) for part in module.split(".")):
        yield module


def test_every_private_name_is_listed() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    missing = []
    for file in sorted((ROOT / "stateward").rglob("*.py")):
        path = str(file.relative_to(ROOT))
        listed = " ".join(row for row in rows if f"`{path}`" in row)
        used = set(private_names(file.read_text(encoding="utf-8")))
        missing += [f"{path}: {name}" for name in sorted(used) if name not in listed]
    assert missing == [], "list each in docs/private-apis.md, with the reason and a test that notices"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("spark._jvm.java", ["_jvm"]),
        ("frame._jdf", ["_jdf"]),
        ("getattr(error, '_cause', None)", ["_cause"]),
        ("from pyspark.sql._typing import ColumnOrName", ["pyspark.sql._typing"]),
        ("from great_expectations.validator.v1_validator import Validator", ["great_expectations.validator"]),
        ("import airflow.models.dag", ["airflow.models"]),
        ("from deltalake import _internal", ["_internal"]),
        ("self._job; super()._stop(); row._replace(a=1); from airflow.sdk import DAG", []),
        ("from stateward.state import _private", []),
    ],
)
def test_private_names_are_recognised(code: str, expected: list[str]) -> None:
    assert list(private_names(code)) == expected
