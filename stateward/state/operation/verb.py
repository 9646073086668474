"""The protocol of verbs: what all of them do alike. A verb itself is a class in `stateward.state.verbs`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import Generation, Pending
from stateward.state.files import checkpoint_copy
from stateward.state.operation.answer import Answer
from stateward.state.operation.context import Context
from stateward.state.operation.journal import Journal

P = TypeVar("P")
"""What a verb has planned."""


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
        """The verb of a sentence: what a dry run would do, or what was done."""
        return f"would {infinitive}" if self.context.request.dry_run else present


class ReadOnly(Verb):
    """A verb that changes nothing."""

    def run(self) -> Answer:
        """Read, and answer."""
        return self.apply()

    @abstractmethod
    def apply(self) -> Answer:
        """Read, and answer."""


@dataclass(frozen=True)
class Earlier:
    """What an earlier try has decided.

    Attributes:
        plan: Its decision.
        journal: Where that is written, and which steps are done.
        pending: The operation, if it has begun to change the stream and did not end; None if it has ended.
    """

    plan: Mapping[str, Any]
    journal: Journal
    pending: Pending | None


class Change(Verb, Generic[P]):
    """A verb that changes something: planned, then applied; what an earlier try has begun is resumed."""

    @abstractmethod
    def plan(self) -> P | Answer:
        """Check everything, and decide; nothing is written. An answer: there is nothing to do."""

    @abstractmethod
    def preview(self, plan: P) -> Answer:
        """Answer a dry run; nothing is written."""

    @abstractmethod
    def apply(self, plan: P) -> Answer:
        """Do what was planned."""

    def resume(self, earlier: Earlier) -> Answer | None:
        """Finish what an earlier try has begun, or answer again; None to start over."""
        return None

    def run(self) -> Answer:
        """Resume an earlier try; without one plan, and preview or carry out the plan."""
        earlier = self._earlier()
        if earlier is not None and (answer := self.resume(earlier)) is not None:
            return answer
        self.context.generation.require_settled(self.context.stream)
        plan = self.plan()
        if isinstance(plan, Answer):
            return plan
        return self.preview(plan) if self.context.request.dry_run else self.carry_out(plan)

    def carry_out(self, plan: P) -> Answer:
        """Apply a plan."""
        return self.apply(plan)

    def _earlier(self) -> Earlier | None:
        """The decision of a try that died: of this operation after its last act, or of a pending one."""
        current = self.context.generation
        pending, journal = current.pending, self.context.journal
        if pending is not None:
            journal = Journal(pending.journal_uri, self.context.clock)
        if journal.plan is None or (pending is not None and pending.verb != self.name):
            return None
        has_ended = journal.plan.get("generation", current.number) == current.number
        return Earlier(journal.plan, journal, pending) if pending is not None or has_ended else None


class NextGeneration(Change[P]):
    """A verb that builds the next generation beside the current one, and then makes it current.

    Nothing refers to the next generation before the last act, one write: what a try that died before has left
    is removed, and the next try starts over.
    """

    is_announced: ClassVar[bool] = False
    """Whether more than `current.json` changes at the end, so that no driver may start in between."""

    @property
    def following(self) -> Generation:
        """The next generation."""
        return self.context.generation.following()

    @abstractmethod
    def apply(self, plan: P) -> Answer:
        """Build the next generation and prove it; the answer is given once it is current."""

    def decision(self, plan: P) -> Mapping[str, Any] | None:
        """What the journal keeps of a plan, beside the generation's number; None: no journal is kept."""
        return None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold what has to be held besides the stream's own lease, from the first write to the last."""
        yield

    def before_current(self, decided: Mapping[str, Any], journal: Journal, operation: str) -> None:
        """Change what has to change before the next generation is current; a second time does no harm."""
        self.context.take_over()

    def carry_out(self, plan: P) -> Answer:
        """Build the next generation, write the decision down, and make the generation current."""
        with self.hold():
            context, following = self.context, self.following
            operation, journal = context.request.operation, context.journal
            checkpoint_copy.remove(following.uri)
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
        """Do the last acts of an operation, which makes the decided generation current."""
        self.before_current(decided, journal, operation)
        number = decided["generation"]
        following = Generation(self.context.generation.root, number, generations.folder_of(number))
        generations.make_current(following, operation, self.context.clock())
