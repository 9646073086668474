"""Whether the driver has an executor of its cluster, and what the cluster has free if it has none."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stateward.contract.names import is_local
from stateward.contract.reading import as_json
from stateward.contract.stream_status import AwaitedExecutors, ClusterRoom
from stateward.runtime.cause import EXECUTORS

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from stateward.runtime.telemetry.status import StatusFile

# An executor takes some seconds to start; until then nothing is wrong.
_GRACE = timedelta(seconds=10)
_ASK_AGAIN = timedelta(seconds=5)
_ANSWER_WITHIN_S = 2.0
_POLL_S = 0.5
_STANDALONE = "spark://"
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}

Ask = Callable[[], ClusterRoom]


class ClusterAwayError(Exception):
    """The cluster does not say what it has free; the text says why."""


class ExecutorWatch:
    """What the driver waits for.

    Args:
        count: The number of its executors.
        ask: What the cluster has free.
        cores, memory_mb: What one executor takes.
        clock: The time, aware.
    """

    def __init__(
        self, count: Callable[[], int], ask: Ask, *, cores: int, memory_mb: int, clock: Callable[[], datetime]
    ) -> None:
        self._count = count
        self._ask = ask
        self._none = AwaitedExecutors(clock(), cores, memory_mb)
        self._clock = clock
        self._since: datetime | None = None
        self._asked_at: datetime | None = None
        self._awaited: AwaitedExecutors | None = None

    @classmethod
    def of(cls, spark: SparkSession, clock: Callable[[], datetime]) -> ExecutorWatch:
        """Return the watch of a session; that of a local master sees one executor, the driver."""
        context = spark.sparkContext
        master, conf = str(context.master), dict(context.getConf().getAll())
        if is_local(master):
            return cls.of_local(clock)
        cores, memory_mb = int(conf.get("spark.executor.cores", "1")), mebibytes(conf)
        application = context.applicationId

        def ask() -> ClusterRoom:
            return room_of(master_state(master, conf), application, cores=cores, memory_mb=memory_mb)

        return cls(lambda: executor_count(context), ask, cores=cores, memory_mb=memory_mb, clock=clock)

    @classmethod
    def of_local(cls, clock: Callable[[], datetime]) -> ExecutorWatch:
        """Return the watch of a driver that is its own executor."""
        return cls(lambda: 1, _nothing_to_ask, cores=1, memory_mb=1, clock=clock)

    @property
    def message(self) -> str:
        """What was waited for at the last look; empty if nothing was."""
        return "" if self._awaited is None else str(self._awaited)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the status, as of the last look."""
        if self._awaited is None:
            return {"awaits": None, "cause": None}
        return {"awaits": as_json(self._awaited), "cause": as_json(EXECUTORS)}

    def look(self) -> bool:
        """Look again, and tell whether anything has changed since the last look."""
        before, self._awaited = self._awaited, self._next()
        return self._awaited != before

    def come(
        self, status: StatusFile, should_stop: Callable[[], bool], pause: Callable[[float], object]
    ) -> bool:
        """Wait for the first executor, without which no task of the start would end.

        Returns:
            Whether there is one; False if a stop is requested before.
        """
        while not should_stop():
            changed = self.look()
            if self._since is None:
                if changed:
                    # The deadline of the start begins again: until now nothing could get on.
                    status.enter(str(status.document["phase"]), state="starting", message="", **self.fields)
                return True
            if changed:
                status.update(state="waiting", message=self.message, **self.fields)
            pause(_POLL_S)
        return False

    def _next(self) -> AwaitedExecutors | None:
        if self._count() > 0:
            self._since = self._asked_at = None
            return None
        now = self._clock()
        if self._since is None:
            self._since = now
        if now - self._since < _GRACE:
            return None
        if self._awaited is None or self._asked_at is None or now - self._asked_at >= _ASK_AGAIN:
            self._asked_at = now
            return self._with_room(replace(self._none, since=self._since))
        return self._awaited

    def _with_room(self, awaited: AwaitedExecutors) -> AwaitedExecutors:
        try:
            return replace(awaited, room=self._ask())
        except ClusterAwayError as error:
            return replace(awaited, unknown=str(error))


def executor_count(context: SparkContext) -> int:
    """The number of executors of a cluster that an application has."""
    # Private: PySpark's own tracker has no executors. Spark lists the driver too.
    tracker: Any = context._jsc.sc().statusTracker()
    return len(tracker.getExecutorInfos()) - 1


def _nothing_to_ask() -> ClusterRoom:
    raise ClusterAwayError("there is no cluster")


def room_of(state: Mapping[str, Any], application: str, *, cores: int, memory_mb: int) -> ClusterRoom:
    """Read what a standalone master says of itself under `/json/`.

    Args:
        state: Its document.
        application: The id of the driver's own, which is left out of those that hold cores.
        cores: What an executor takes.
        memory_mb: Likewise, MiB.

    Raises:
        ClusterAwayError: It is another document.
    """
    try:
        workers = [one for one in state["workers"] if one["state"] == "ALIVE"]
        held: dict[str, int] = {}
        for one in state["activeapps"]:
            if one["id"] != application and one["cores"] > 0:
                held[one["name"]] = held.get(one["name"], 0) + one["cores"]
        return ClusterRoom(
            workers=len(workers),
            cores=sum(one["cores"] for one in workers),
            memory_mb=sum(one["memory"] for one in workers),
            free_cores=sum(one["coresfree"] for one in workers),
            free_memory_mb=sum(one["memoryfree"] for one in workers),
            fits=any(one["coresfree"] >= cores and one["memoryfree"] >= memory_mb for one in workers),
            held=held,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ClusterAwayError(f"its answer has no {error}") from error


def master_state(master: str, conf: Mapping[str, str]) -> dict[str, Any]:
    """Ask the standalone master that leads.

    Raises:
        ClusterAwayError: It is no standalone cluster, or no master answers.
    """
    if not master.startswith(_STANDALONE):
        raise ClusterAwayError(f"{master.partition(':')[0]} is not asked")
    # Spark's own setting of the master, whose address has the port of its other service.
    port = conf.get("spark.master.ui.port", "8080")
    problem = "no master leads"
    for address in master.removeprefix(_STANDALONE).split(","):
        url = f"http://{address.rpartition(':')[0]}:{port}/json/"
        try:
            with _OPENER.open(url, timeout=_ANSWER_WITHIN_S) as answer:
                state: dict[str, Any] = json.load(answer)
        except (OSError, ValueError) as error:
            problem = f"{url} does not answer: {error}"
            continue
        if state.get("status") == "ALIVE":
            return state
    raise ClusterAwayError(problem)


# A proxy of the environment does not lead to the cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def mebibytes(conf: Mapping[str, str]) -> int:
    """The heap of an executor; a number without a unit is MiB."""
    text = conf.get("spark.executor.memory", "1g").strip().lower().removesuffix("b").removesuffix("i")
    unit = text[-1:] if text[-1:] in _UNITS else "m"
    return int(int(text.rstrip("kmgt")) * _UNITS[unit])
