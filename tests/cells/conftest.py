"""The two cells, and the table of what was found in them."""

from __future__ import annotations

import pytest

from tests.cells.machines import CELLS, why_not
from tests.support.fresh_machine import Machine

TABLE: dict[str, dict[str, str]] = {}
"""By row and cell."""


@pytest.fixture(scope="session", params=CELLS, ids=lambda cell: cell.name)
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Machine]:
    """The name of a cell, and its machine."""
    if reason := why_not():
        pytest.fail(reason)
    return request.param.name, request.param.make(tmp_path_factory.mktemp(request.param.name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, as docs/install-into-airflow.md has it."""
    names = [cell.name for cell in CELLS]
    terminalreporter.section("cells")
    terminalreporter.write_line(f"| | {' | '.join(names)} |")
    terminalreporter.write_line("|---|---|---|")
    for row, found in TABLE.items():
        terminalreporter.write_line(
            f"| {row} | {' | '.join(found.get(name, 'not known') for name in names)} |"
        )
