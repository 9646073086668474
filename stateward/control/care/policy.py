"""What to change of a state, and whether a policy lets it happen: from the looks so far. Pure.

A look advises a number of partitions: more when the busiest hour of the last day, or the size, needs them;
fewer only when the busiest hour of seven days does not. So a move down never follows a quiet night, and the
policy `auto` moves only on advice that several looks in a row have given. After a change the looks before it
no longer count. How long a day is, is a rule, so that a policy can be tried in an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Literal

from stateward.contract.state_care import MAX_SKEW, CareRecord, Change, ChangeKind, Look
from stateward.control.care.cost import Cost, Saving, cost_of

Policy = Literal["off", "propose", "approve", "auto"]
Step = Literal["none", "propose", "ask", "act"]
Because = Literal[
    "off",
    "no_look",
    "no_batch",
    "fits",
    "policy",
    "upgrade_first",
    "not_held",
    "long_pause",
    "too_soon",
    "failed_before",
    "refused_before",
    "held",
]

# A load that varies from day to day would otherwise add a partition or two at a time.
_WORTH_A_STOP = 1.25
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# In days.
_APART = 0.5
_AFTER_FAILURE = 7
# Looks that are farther apart say nothing about the time between them: a weekly schedule is the longest.
_GAP = 8


@dataclass(frozen=True)
class Rules:
    """The rules of one stream, from its YAML.

    Attributes:
        policy: What may happen without a person.
        looks: So many looks in a row have to advise a change before `auto` makes it.
        max_pause: `auto` asks a person before a change that is expected to stop the stream for longer.
        max_partitions: The most partitions; None: no limit.
        day: How long a day is.
    """

    policy: Policy
    looks: int
    max_pause: timedelta
    max_partitions: int | None = None
    day: timedelta = timedelta(days=1)

    def date(self, at: datetime) -> int:
        """Return the number of the day of a time; a day of 24 hours begins at midnight, UTC."""
        return (at - _EPOCH) // self.day


@dataclass(frozen=True)
class Reason:
    """Why a change is proposed.

    Attributes:
        kind: `grown` and `shrunk`: another number of partitions is needed. `skew`: the largest partition is
            too large. `versions`: states of older versions are left.
        found: What was found: a number of partitions, a ratio, a version.
        wanted: What it should be.
    """

    kind: Literal["grown", "shrunk", "skew", "versions"]
    found: float
    wanted: float


@dataclass(frozen=True)
class Proposal:
    """One proposed change.

    Attributes:
        kind: What to change.
        before: The number now: of partitions, of buckets, or the oldest version.
        after: The number afterwards.
        reasons: Why.
        held: So many looks in a row have advised it.
        cost: What it costs.
        saving: What it saves.
        advice: How the number was calculated, one sentence each.
    """

    kind: ChangeKind
    before: int
    after: int
    reasons: tuple[Reason, ...]
    held: int
    cost: Cost
    saving: Saving
    advice: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The verb of a state operation that makes it."""
        return "repartition" if self.kind == "repartition" else "migrate"

    @property
    def fields(self) -> dict[str, int]:
        """The verb's fields."""
        names: dict[ChangeKind, str] = {"repartition": "partitions", "rebucket": "buckets"}
        return {names[self.kind]: self.after} if self.kind in names else {}


@dataclass(frozen=True)
class Decision:
    """What happens now.

    Attributes:
        step: `none`: nothing. `propose`: only a report. `ask`: a person approves it. `act`: it is done.
        because: Why not more.
        proposals: All proposals; `step` is about the first.
    """

    step: Step
    because: Because
    proposals: tuple[Proposal, ...] = ()


def decide(rules: Rules, record: CareRecord, now: datetime, *, is_outdated: bool = False) -> Decision:
    """Decide what happens after the newest look.

    Args:
        rules: The rules of the stream.
        record: The looks and the changes so far.
        now: The time, aware.
        is_outdated: Whether another release is deployed than the one that runs. The stream would start with
            it after a change, and that is for an upgrade, which watches it.
    """
    if rules.policy == "off":
        return Decision("none", "off")
    if not record.looks:
        return Decision("none", "no_look")
    found = proposals(rules, record)
    if not found:
        return Decision("none", "fits")
    judged = [(one, *_step(rules, record.changes, one, now, is_outdated)) for one in found]
    first, step, because = next((one for one in judged if one[1] != "propose"), judged[0])
    return Decision(step, because, (first, *(one for one in found if one is not first)))


def _step(
    rules: Rules, changes: Sequence[Change], proposal: Proposal, now: datetime, is_outdated: bool
) -> tuple[Step, Because]:
    if rules.policy == "propose":
        return "propose", "policy"
    if (obstacle := _obstacle(rules, changes, proposal, now)) is not None:
        return "propose", obstacle
    if is_outdated:
        return "propose", "upgrade_first"
    if rules.policy == "approve":
        return "ask", "policy"
    if proposal.held < rules.looks:
        return "propose", "not_held"
    is_long = proposal.cost.pause_s > rules.max_pause.total_seconds()
    return ("ask", "long_pause") if is_long else ("act", "held")


def _obstacle(rules: Rules, changes: Sequence[Change], proposal: Proposal, now: datetime) -> Because | None:
    apart, again = _APART * rules.day, _AFTER_FAILURE * rules.day
    for change in reversed(changes):
        is_same = (change.kind, change.after) == (proposal.kind, proposal.after)
        if change.outcome == "refused":
            if is_same and now - change.at < again:
                return "refused_before"
            continue
        if rules.date(change.at) == rules.date(now) or now - change.at < apart:
            return "too_soon"
        if change.outcome == "failed" and change.kind == proposal.kind and now - change.at < again:
            return "failed_before"
    return None


def proposals(rules: Rules, record: CareRecord) -> tuple[Proposal, ...]:
    """Return what the newest look proposes, the most urgent first.

    Args:
        rules: The rules of the stream.
        record: The looks and the changes so far, with at least one look.
    """
    if not record.looks[-1].keys:
        return ()
    found = (_repartition(rules, record), _rebucket(rules, record), _migrate(rules, record))
    return tuple(one for one in found if one is not None)


def wanted_partitions(look: Look, max_partitions: int | None = None) -> int:
    """Return the number of partitions that a look wants: the current one, more, or fewer."""
    up, down = (
        number if max_partitions is None else min(number, max_partitions)
        for number in (look.advised_today, look.advised)
    )
    if up > look.partitions:
        return up
    return min(down, look.partitions)


def _repartition(rules: Rules, record: CareRecord) -> Proposal | None:
    look = record.looks[-1]
    now = look.partitions

    def wants(one: Look) -> int:
        return wanted_partitions(one, rules.max_partitions)

    if wants(look) == now:
        return None
    is_up = wants(look) > now
    held = _held(
        rules,
        record,
        lambda one: one.partitions == now and wants(one) != now and (wants(one) > now) == is_up,
    )
    if not held:  # the last change is not older than the look, by another machine's clock
        return None
    # The number on which all of them agree: a single busier or quieter day does not decide it.
    after = (min if is_up else max)(wants(one) for one in held[: rules.looks])
    reason = Reason("grown" if is_up else "shrunk", now, after)
    skewed = [Reason("skew", look.skew, MAX_SKEW)] if look.skew is not None and look.skew > MAX_SKEW else []
    if is_up and after <= _WORTH_A_STOP * now and not skewed:
        return None
    busy = look.batch_ms
    workers = min(now, look.cores), min(after, look.cores)
    faster = None if busy is None or workers[0] >= workers[1] else (busy, busy * workers[0] / workers[1])
    saving = Saving((look.largest_bytes, look.state_bytes // after), (now, after), faster)
    cost = cost_of("repartition", look, record.changes)
    return Proposal(
        "repartition", now, after, (reason, *skewed), len(held), cost, saving, tuple(look.reasons)
    )


def _rebucket(rules: Rules, record: CareRecord) -> Proposal | None:
    look = record.looks[-1]
    if look.buckets is None or look.advised_buckets is None or look.skew is None:
        return None
    held = _held(rules, record, lambda one: one.buckets == look.buckets and one.advised_buckets is not None)
    even = look.state_bytes // look.partitions
    saving = Saving((look.largest_bytes, even), (look.partitions, look.partitions))
    return Proposal(
        "rebucket",
        look.buckets,
        look.advised_buckets,
        (Reason("skew", look.skew, MAX_SKEW),),
        len(held),
        cost_of("rebucket", look, record.changes),
        saving,
        tuple(look.reasons),
    )


def _migrate(rules: Rules, record: CareRecord) -> Proposal | None:
    look = record.looks[-1]
    if look.state_version is None or not look.old_versions:
        return None
    oldest = min(look.old_versions)
    held = _held(rules, record, lambda one: one.old_versions == look.old_versions)
    saving = Saving((look.largest_bytes, look.largest_bytes), (look.partitions, look.partitions))
    return Proposal(
        "migrate",
        oldest,
        look.state_version,
        (Reason("versions", oldest, look.state_version),),
        len(held),
        cost_of("migrate", look, record.changes),
        saving,
    )


def _held(rules: Rules, record: CareRecord, advises: Callable[[Look], bool]) -> list[Look]:
    """The looks in a row that advise the same, the newest first; none from before the last change."""
    made = [change.at for change in record.changes if change.outcome != "refused"]
    since = [look for look in record.looks if not made or look.at > max(made)]
    return list(takewhile(advises, _without_gap(since, _GAP * rules.day)))


def _without_gap(looks: Sequence[Look], most: timedelta) -> Iterator[Look]:
    newest_first = list(reversed(looks))
    yield from newest_first[:1]
    for later, earlier in pairwise(newest_first):
        if later.at - earlier.at > most:
            return
        yield earlier
