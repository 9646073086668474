"""Rounds of two drivers started on one checkpoint a moment apart, under continuous traffic."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from deltalake import DeltaTable

from proof.two_drivers.verdict import named_in, wrong_commits
from stateward.contract.lease import Holding, holdings
from stateward.contract.process_output import DriverExit
from tests.support.spark.launches import Launch
from tests.support.streams.traced import Traced
from tests.support.waiting import wait_until

End = Literal["drained", "killed", "frozen"]

LONGEST_DELAY_S = 8.0
LEASE_TTL_MS = 10_000
_PATIENCE_S = 180
_LONGEST_PAUSE_S = 1.5
# Share of a round's records after which the holder may have nothing left to process.
_LATEST_END = 0.6


@dataclass(frozen=True)
class Driver:
    """One of a pair."""

    run_id: str
    host: int
    process: subprocess.Popen[bytes]


@dataclass(frozen=True)
class Round:
    """The outcome of a round.

    Attributes:
        delay_s: Time between the two starts, seconds.
        hosts: Number of hosts of the two drivers.
        winner: The run that took the lease.
        epoch: Its epoch.
        loser: The run that was refused.
        named: The holder that the loser reported: `winner`, or `before`, the holder of the previous round.
        ended: How the winner ended.
        thawed_s: How long the frozen driver of the previous round ran after it was resumed, seconds.
    """

    delay_s: float
    hosts: int
    winner: str
    epoch: int
    loser: str
    named: str
    ended: End
    thawed_s: float | None = None


@dataclass
class Contest:
    """Plays the rounds.

    Attributes:
        launches: The same stream and folder, as launched on each of two hosts.
        course: Its traffic and the expected output.
        rng: Draws delays, hosts, ends and times.
        say: Called with a line for each round.
    """

    launches: tuple[Launch, Launch]
    course: Traced
    rng: random.Random
    say: Callable[[str], None]
    batch: int = 200
    rounds: list[Round] = field(default_factory=list)
    wrong: dict[str, Any] = field(default_factory=dict)
    holder: Driver | None = None
    frozen: Driver | None = None

    @property
    def launch(self) -> Launch:
        """A launch, for what both hosts share."""
        return self.launches[0]

    def play(self, rounds: int) -> None:
        """Play all rounds, let the last holder finish, and check everything.

        Raises:
            AssertionError: A round came to no end.
        """
        for topic in self.course.topics:
            self.launch.broker.create_topic(topic, self.launch.partitions)
        try:
            for number, part in enumerate(self.course.parts(rounds), start=1):
                before = self.course.sent
                self.course.send(part)
                played = self._round(number, before, is_last=number == rounds)
                self.rounds.append(played)
                self.say(f"round {number}/{rounds}: {_sentence(played)}")
            self.course.finish(self)
            self._drain()
        finally:
            for launch in self.launches:
                launch.kill_all()
        held = self.holdings()
        batches = self.launch.rows("batch_counts")
        self.wrong |= self.course.wrong() | wrong_commits(batches, held)
        if [one.run_id for one in held] != [one.winner for one in self.rounds]:
            self.wrong["holders"] = [asdict(one) for one in held]

    def wait(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for a status of the holder."""
        holder = self.holder
        assert holder is not None

        def look() -> dict[str, Any] | None:
            status = self.launch.status()
            return status if status.get("run_id") == holder.run_id and reached(status) else None

        return wait_until(
            look, _PATIENCE_S, lambda: f"{what}: {self.launch.status()} {self._log(holder)[-2000:]}"
        )

    def holdings(self) -> list[Holding]:
        """The holders of the lease, oldest first."""
        return holdings(_rows(self.launch.uri("leases-history")))

    def _round(self, number: int, before: int, *, is_last: bool) -> Round:
        last = self.rounds[-1] if self.rounds else None
        delay_s = self.rng.random() * LONGEST_DELAY_S
        pair = self._start(number, delay_s, last)
        winner = self._winner(pair)
        loser = next(one for one in pair if one is not winner)
        self.holder = winner
        played = Round(
            delay_s=round(delay_s, 2),
            hosts=len({one.host for one in pair}),
            winner=winner.run_id,
            epoch=self.holdings()[-1].epoch,
            loser=loser.run_id,
            named=self._refused(loser, winner, last),
            ended="drained",
        )
        if self.frozen is not None:
            played = replace(played, thawed_s=self._thaw(self.frozen))
            self.frozen = None
        return played if is_last else replace(played, ended=self._end(before))

    def _start(self, number: int, delay_s: float, last: Round | None) -> list[Driver]:
        hosts = [self.rng.randrange(2), self.rng.randrange(2)]
        if last is not None and last.ended != "drained":
            assert self.holder is not None
            # A killed driver is noticed on its own host; a frozen one counts as gone on another host only.
            hosts[0] = self.holder.host if last.ended == "killed" else 1 - self.holder.host
        if self.frozen is not None:
            wait_until(self._has_expired, _PATIENCE_S, "the lease of the frozen driver expires")
        self.rng.shuffle(hosts)
        first = self._driver(f"run-{number}-a", hosts[0])
        threading.Event().wait(delay_s)
        return [first, self._driver(f"run-{number}-b", hosts[1])]

    def _driver(self, run_id: str, host: int) -> Driver:
        launch = self.launches[host]
        lease = {"uri": launch.uri("leases"), "ttl_ms": LEASE_TTL_MS, "renew_ms": 1000}
        # Separate caches, as on two machines.
        cache = str(launch.folder / f"cache-{host}")
        process = launch.start(
            run_id,
            lease=lease,
            state_cache_dir=cache,
            max_records_per_batch=self.batch,
            **self.course.changes,
        )
        return Driver(run_id, host, process)

    def _winner(self, pair: Sequence[Driver]) -> Driver:
        def holds() -> Driver | None:
            [row] = _rows(self.launch.uri("leases")) or [{}]
            return next((one for one in pair if one.run_id == row.get("run_id")), None)

        winner = wait_until(
            holds, _PATIENCE_S, lambda: f"one has the lease: {[self._log(one)[-1500:] for one in pair]}"
        )
        # Reported a moment after the lease is taken.
        wait_until(
            lambda: self.holdings() and self.holdings()[-1].run_id == winner.run_id,
            30,
            "it is in the history",
        )
        return winner

    def _refused(self, loser: Driver, winner: Driver, last: Round | None) -> str:
        code = loser.process.wait(_PATIENCE_S)
        named = named_in(self._log(loser))
        by_run = {one.run_id: one for one in self.holdings()}
        known = {"winner": by_run[winner.run_id]}
        if last is not None:
            known["before"] = by_run[last.winner]
        named_as = next((who for who, holding in known.items() if named and named.is_(holding)), "")
        if code != DriverExit.REFUSED or not named_as:
            self.wrong[f"refusal of {loser.run_id}"] = {"exit code": code, "named": str(named)}
        return named_as

    def _end(self, before: int) -> End:
        moment = before + int(self.rng.random() * _LATEST_END * (self.course.sent - before))
        self.wait(f"{moment} records are delivered", lambda status: (status["delivered"] or 0) >= moment)
        threading.Event().wait(self.rng.random() * _LONGEST_PAUSE_S)
        assert self.holder is not None
        ended: End = self.rng.choices(("drained", "killed", "frozen"), (2, 2, 1))[0]
        if ended == "drained":
            self._drain()
        elif ended == "killed":
            os.killpg(self.holder.process.pid, signal.SIGKILL)
            self.holder.process.wait()
        else:
            os.killpg(self.holder.process.pid, signal.SIGSTOP)
            self.frozen = self.holder
        return ended

    def _drain(self) -> None:
        assert self.holder is not None
        self.holder.process.send_signal(signal.SIGTERM)
        code = self.holder.process.wait(_PATIENCE_S)
        if code != DriverExit.DRAINED:
            self.wrong[f"drain of {self.holder.run_id}"] = {"exit code": code}

    def _thaw(self, driver: Driver) -> float:
        """Resume the frozen driver, now that another one has the lease; returns how many seconds it runs."""
        if self.rng.random() < 0.5:
            wait_until(self._has_committed, _PATIENCE_S, "the next one commits")
        began = time.monotonic()
        os.killpg(driver.process.pid, signal.SIGCONT)
        code = driver.process.wait(_PATIENCE_S)
        if code != DriverExit.LEASE_LOST:
            self.wrong[f"end of {driver.run_id}, which was frozen"] = {"exit code": code}
        return round(time.monotonic() - began, 2)

    def _has_committed(self) -> bool:
        assert self.holder is not None
        return any(row["run_id"] == self.holder.run_id for row in self.launch.rows("batch_counts"))

    def _has_expired(self) -> bool:
        [row] = _rows(self.launch.uri("leases"))
        return bool(row["expires_at"] <= datetime.now(UTC))

    def _log(self, driver: Driver) -> str:
        return self.launch.log(driver.run_id).read_text(errors="replace")


def _rows(uri: str) -> list[dict[str, Any]]:
    if not DeltaTable.is_deltatable(uri):
        return []
    rows: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return rows


def _sentence(played: Round) -> str:
    frozen = f"; the frozen driver left after {played.thawed_s} s" if played.thawed_s is not None else ""
    named = played.named or "neither of the two"
    return (
        f"{played.delay_s} s apart on {played.hosts} host(s), {played.winner} took epoch {played.epoch},"
        f" {played.loser} was refused and named the {named}{frozen}; then {played.ended}"
    )
