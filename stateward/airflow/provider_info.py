"""What Airflow learns of this package when it is installed: the entry point `apache_airflow_provider`.

Plugins have an entry point of their own (`airflow.plugins`), which Airflow loads in every configuration.
"""

from __future__ import annotations

from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from stateward.project.airflow_options import SECTION
from stateward.project.settings import Settings

_NAME = "Stateward"
_OPERATORS = (
    *("deploy_stream", "hold_stream", "maintain_table", "operation_outcome", "reconcile_stream"),
    *("state_operation", "supervise_stream", "upgrade_stream", "validate_table"),
)
_TRIGGERS = ("stream_progress", "stream_turn", "table_changes", "table_update")


def get_provider_info() -> dict[str, Any]:
    """Return the description that Airflow's `provider_info.schema.json` asks for."""
    return {
        "package-name": "stateward",
        "name": _NAME,
        "description": "Long-lived stateful PySpark streams: deployed, supervised and validated.",
        "integrations": [{"integration-name": _NAME, "tags": ["software"]}],
        "operators": [_modules("operators", _OPERATORS)],
        "triggers": [_modules("triggers", _TRIGGERS)],
        "notifications": [
            "stateward.airflow.notifiers.json_lines.JsonLinesNotifier",
            "stateward.airflow.notifiers.task_log.TaskLogNotifier",
        ],
        "extra-links": [
            "stateward.airflow.operators.state_operation.ResultPageLink",
            "stateward.airflow.operators.validate_table.DataDocsLink",
            "stateward.airflow.operators.validate_table.QualityOverviewLink",
        ],
        "config": {
            SECTION: {
                "description": "Settings of Stateward. A variable STATEWARD_<OPTION> wins over the option.",
                "options": {name: _option(field) for name, field in Settings.model_fields.items()},
            }
        },
    }


def _modules(folder: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "integration-name": _NAME,
        "python-modules": [f"stateward.airflow.{folder}.{name}" for name in names],
    }


def _option(field: FieldInfo) -> dict[str, Any]:
    return {
        "description": field.description,
        # Without a default here: Airflow would write it into a new airflow.cfg, where it hides later ones.
        "default": None,
        "version_added": None,
        "type": "string",
        "example": None,
        "sensitive": SecretStr in (field.annotation, *get_args(field.annotation)),
    }
