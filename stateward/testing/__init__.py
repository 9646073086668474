"""What the tests of a project's streams import: properties, and checks of declarations (docs/testing.md)."""

from stateward.testing.requirements import require

require("hypothesis", "pytest")

import pytest  # noqa: E402

# A failed assertion of theirs is shown as one of the test's own.
pytest.register_assert_rewrite(
    *(f"{__name__}.{_module}" for _module in ("cut_property", "declarations", "state_versions"))
)

from stateward.testing.cases import Case, case_of  # noqa: E402
from stateward.testing.cut_property import any_cut  # noqa: E402
from stateward.testing.declarations import Records, check_fields, check_state, check_tables  # noqa: E402
from stateward.testing.project_checks import check_project, tried  # noqa: E402
from stateward.testing.state_versions import reads_states  # noqa: E402

__all__ = [
    "Case",
    "Records",
    "any_cut",
    "case_of",
    "check_fields",
    "check_project",
    "check_state",
    "check_tables",
    "reads_states",
    "tried",
]
