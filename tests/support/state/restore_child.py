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


def restore_dies(installed: Installed, survives: int, operation: str) -> bool:
    """Whether a restore dies before it has written a document, or taken a table back, for so many times."""
    left = iter(range(survives))

    def dying(work: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            if next(left, None) is None:
                raise Death
            return work(*arguments)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((storage, "write_text"), (restore_module, "take_back")):
            patch.setattr(module, name, dying(getattr(module, name)))
        try:
            installed.restore(operation=operation)
        except Death:
            return True
    return False
