"""The protocol of verbs: the order of acts, dry runs, and retries after a death at any act."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stateward.runtime.checkpoint.generations import PendingOperationError
from stateward.state.operation.answer import Answer
from stateward.state.operation.journal import Journal
from stateward.state.operation.verb import Earlier, NextGeneration
from tests.support.state.installed_stream import Installed
from tests.support.state.restore_child import Death

ACTS = ["plan", "apply", "before current"]


class Recorded(NextGeneration[str]):
    """Records its acts in ``acts``, and dies before the act ``dies``."""

    name = "recorded"
    acts: list[str]
    dies: str | None = None

    def act(self, name: str) -> None:
        if name == self.dies:
            raise Death
        self.acts.append(name)

    def plan(self) -> str | Answer:
        self.act("plan")
        return Answer(("nothing to do",)) if self.context.request.arguments.get("done") else "planned"

    def preview(self, plan: str) -> Answer:
        return Answer((f"it {self.would('be', 'is')} {plan}",))

    def decision(self, plan: str) -> Mapping[str, Any]:
        return {"decided": plan}

    def apply(self, plan: str) -> Answer:
        self.act("apply")
        folder = Path(self.following.uri.removeprefix("file://"))
        assert not folder.exists(), "what a try before has left is removed"
        folder.mkdir()
        return Answer((plan,))

    def before_current(self, decided: Mapping[str, Any], journal: Journal, operation: str) -> None:
        self.act("before current")

    def resume(self, earlier: Earlier) -> Answer:
        self.act("resume")
        if earlier.pending is not None:
            self.make_current(earlier.plan, earlier.journal, earlier.pending.operation)
        return Answer((f"resumed {earlier.plan['decided']}",))


class Announced(Recorded):
    """Keeps drivers from starting during its last acts."""

    name = "announced"
    is_announced = True


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def run(
    installed: Installed,
    verb: type[Recorded],
    dies: str | None = None,
    *,
    dry_run: bool = False,
    **given: Any,
) -> tuple[list[str], Answer | None]:
    one = verb(installed.context(verb.name, "op-1", given, dry_run=dry_run))
    one.acts, one.dies = [], dies
    try:
        return one.acts, one.run()
    except Death:
        return one.acts, None


@pytest.mark.parametrize("verb", [Recorded, Announced])
def test_a_verb_plans_applies_and_makes_the_next_generation_current(
    installed: Installed, verb: type[Recorded]
) -> None:
    assert run(installed, verb) == (ACTS, Answer(("planned",)))
    assert (installed.generation.number, installed.generation.pending) == (2, None)
    assert run(installed, verb) == (["resume"], Answer(("resumed planned",))), "the task is tried again"
    assert installed.generation.number == 2


def test_a_dry_run_and_a_plan_with_nothing_to_do_change_nothing(installed: Installed) -> None:
    assert run(installed, Recorded, dry_run=True) == (["plan"], Answer(("it would be planned",)))
    assert run(installed, Recorded, done=True) == (["plan"], Answer(("nothing to do",)))
    assert installed.generation.number == 1


@pytest.mark.parametrize("dies", ACTS)
def test_a_try_that_dies_before_its_last_act_is_started_over(installed: Installed, dies: str) -> None:
    assert run(installed, Recorded, dies)[1] is None
    assert installed.generation.number == 1
    assert run(installed, Recorded) == (ACTS, Answer(("planned",)))
    assert installed.generation.number == 2


def test_an_announced_verb_that_dies_is_finished_and_no_other_runs_before(installed: Installed) -> None:
    run(installed, Announced, "before current")
    assert installed.generation.pending is not None
    with pytest.raises(PendingOperationError, match="stateward state announced"):
        run(installed, Recorded)
    assert run(installed, Announced)[0] == ["resume", "before current"]
    assert installed.generation.number == 2
    assert installed.generation.pending is None
