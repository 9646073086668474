"""The settings a running platform was started with."""

from __future__ import annotations

from stateward.contract.names import ENV_PREFIX
from stateward.platform.parts.supervisord import Supervisor
from stateward.project.layout import Layout
from stateward.project.settings import Settings


def running_settings(settings: Settings) -> Settings:
    """Return the settings of the platform that runs at this home, or `settings` when none runs.

    So that `status` and `replay` find an installation by its home alone, on whatever ports it was started.
    """
    supervisor = Supervisor(Layout.of(settings))
    if not supervisor.is_running():
        return settings
    started_with = supervisor.started_with()
    return read_environment(started_with) if started_with else settings


def read_environment(variables: dict[str, str]) -> Settings:
    """Return the settings that `Settings.environment` has written, by this release or an earlier one."""
    fields = {name.removeprefix(ENV_PREFIX).lower(): value for name, value in variables.items()}
    return Settings.model_validate(fields)
