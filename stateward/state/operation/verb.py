"""The protocol of verbs, and what all of them have in common; the verbs are in `stateward.state.verbs`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from stateward.contract import storage
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import Generation, Pending
from stateward.state.operation.answer import Answer
from stateward.state.operation.context import Context
from stateward.state.operation.journal import Journal

P = TypeVar("P")
"""The plan of a verb."""


class Verb(ABC):
    """One run of a verb.

    Attributes:
        name: As `stateward.control.jobs.verbs` declares it.
        context: What it works with.
    """

    name: ClassVar[str]

    def __init__(self, context: Context) -> None:
        self.context = context

    @abstractmethod
    def run(self) -> Answer:
        """Carry the operation out; a dry run changes nothing.

        Raises:
            StateError: It cannot be done; the stream's state is as it was.
        """

    def would(self, infinitive: str, present: str) -> str:
        """Choose the verb of a sentence: what a dry run would do, or what was done."""
        return f"would {infinitive}" if self.context.request.dry_run else present


class ReadOnly(Verb):
    """A verb that changes nothing."""

    def run(self) -> Answer:
        """Apply the verb; a dry run is the same."""
        return self.apply()

    @abstractmethod
    def apply(self) -> Answer:
        """Read, and answer."""


@dataclass(frozen=True)
class Earlier:
    """The decision of an earlier try.

    Attributes:
        plan: What was decided.
        journal: The journal that has it, and the steps that are done.
        pending: The operation if it is unfinished; None if it did its last act.
    """

    plan: Mapping[str, Any]
    journal: Journal
    pending: Pending | None


class Change(Verb, Generic[P]):
    """A verb that changes something. A plan is made, then applied; a retry resumes the try before it."""

    @abstractmethod
    def plan(self) -> P | Answer:
        """Check everything and decide what to do; write nothing. An answer means that nothing is to do."""

    @abstractmethod
    def preview(self, plan: P) -> Answer:
        """Answer a dry run; write nothing."""

    @abstractmethod
    def apply(self, plan: P) -> Answer:
        """Carry out the plan, and answer."""

    def resume(self, earlier: Earlier) -> Answer | None:
        """Finish an earlier try, or repeat its answer; return None to start over."""
        return None

    def run(self) -> Answer:
        """Resume an earlier try if there is one; otherwise plan, and preview or carry out the plan."""
        earlier = self._earlier()
        if earlier is not None and (answer := self.resume(earlier)) is not None:
            return answer
        self.context.generation.require_settled(self.context.stream)
        plan = self.plan()
        if isinstance(plan, Answer):
            return plan
        return self.preview(plan) if self.context.request.dry_run else self.carry_out(plan)

    def carry_out(self, plan: P) -> Answer:
        """Apply the plan."""
        return self.apply(plan)

    def _earlier(self) -> Earlier | None:
        """Find a try of this operation that died after its last act, or a pending operation of this verb."""
        context, current = self.context, self.context.generation
        if (pending := current.pending) is not None:
            journal = Journal(pending.journal_uri, context.clock) if pending.verb == self.name else None
        else:
            journal = context.journal
        if journal is None or journal.plan is None:
            return None
        has_ended = journal.plan.get("generation", current.number) == current.number
        return Earlier(journal.plan, journal, pending) if pending is not None or has_ended else None


class NextGeneration(Change[P]):
    """A verb that builds the next generation beside the current one, and then makes it current.

    Nothing refers to the next generation before the last act, which is one write. A retry after a try that
    died before it removes what that try left, and starts over.
    """

    is_announced: ClassVar[bool] = False
    """Whether the last acts change more than `current.json`, so that no driver may start during them."""

    @property
    def following(self) -> Generation:
        """The next generation."""
        return self.context.generation.following()

    @abstractmethod
    def apply(self, plan: P) -> Answer:
        """Build the next generation and prove it. The answer is given once the generation is current."""

    def decision(self, plan: P) -> Mapping[str, Any] | None:
        """Return what the journal keeps of a plan besides the generation's number; None keeps no journal."""
        return None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold further leases besides the stream's own, from the first write to the last."""
        yield

    def before_current(self, decided: Mapping[str, Any], journal: Journal, operation: str) -> None:
        """Do the last acts before the next generation becomes current; they have to be idempotent."""
        self.context.take_over()

    def carry_out(self, plan: P) -> Answer:
        """Build the next generation, write the decision down, and make the generation current."""
        with self.hold():
            context, following = self.context, self.following
            operation, journal = context.request.operation, context.journal
            storage.delete(following.uri)
            answer = self.apply(plan)
            decision = self.decision(plan)
            decided = {"generation": following.number, **(decision or {})}
            if decision is not None:
                journal.decide(decided)
            context.report("generation", f"{following.number} becomes the current one")
            if self.is_announced:
                pending = Pending(operation, self.name, journal.uri)
                generations.announce(context.generation, pending, context.clock())
            self.make_current(decided, journal, operation)
        return answer

    def make_current(self, decided: Mapping[str, Any], journal: Journal, operation: str) -> None:
        """Do the last acts of an operation: the decided generation becomes current."""
        self.before_current(decided, journal, operation)
        number = decided["generation"]
        following = Generation(self.context.generation.root, number, generations.folder_of(number))
        generations.make_current(following, operation, self.context.clock())
