"""A process that is killed in the middle of a restore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateward.contract import storage
from stateward.state.verbs import restore as restore_module
from tests.support.state.installed_stream import Installed


class Death(BaseException):
    """The process is gone: no handler of ours sees it."""


class Mortal:
    """Dies before one of its acts, which are documents that are written and tables that go back."""

    def __init__(self, patch: pytest.MonkeyPatch, survives: int) -> None:
        self._left = survives
        for module, name in ((storage, "write_text"), (restore_module, "take_back")):
            patch.setattr(module, name, self._mortal(getattr(module, name)))

    def _mortal(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Death
            return work(*arguments)

        return act


def die(installed: Installed, survives: int, operation: str) -> bool:
    """Whether a restore dies after so many acts."""
    with pytest.MonkeyPatch.context() as patch:
        Mortal(patch, survives)
        try:
            installed.restore(operation=operation)
        except Death:
            return True
    return False
