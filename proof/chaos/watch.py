"""Two observers: one of each stream's progress, one of the DAG runs that supervise the streams."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from proof.chaos.feed import Feed
from proof.chaos.installation import Platform
from proof.chaos.progress import Gap, Progress
from proof.chaos.truths import TOPICS
from stateward.cli.streams.airflow_api import AirflowApiError

_LOOK_S = 1.0
_ROUND_S = 15.0


class Background:
    """Repeats an action until it is stopped. Use as a context manager.

    Args:
        what: The action.
        every_s: Interval, seconds.
    """

    def __init__(self, what: Callable[[], None], every_s: float) -> None:
        self._what = what
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._what()


class Watch:
    """Observes once a second what each stream has committed.

    Args:
        platform: The platform.
        feeds: The traffic.
        clock: Seconds from the start.
    """

    def __init__(self, platform: Platform, feeds: Sequence[Feed], clock: Callable[[], float]) -> None:
        self._platform = platform
        self._clock = clock
        self._feeds: Mapping[str, list[Feed]] = {
            stream: [feed for feed in feeds if TOPICS[stream] in (None, feed.topic)]
            for stream in platform.streams
        }
        self._progress = {stream: Progress(stream) for stream in platform.streams}

    def looking(self) -> Background:
        """Observe while this is entered."""
        return Background(self._look, _LOOK_S)

    def waiting(self) -> dict[str, int]:
        """The number of records that each stream has yet to commit, as last observed."""
        return {
            stream: self._handed(stream) - progress.delivered for stream, progress in self._progress.items()
        }

    def gaps(self) -> list[Gap]:
        """The gaps of each stream; an open gap ends now."""
        for progress in self._progress.values():
            progress.finish(self._clock())
        return [gap for progress in self._progress.values() for gap in progress.gaps]

    def _look(self) -> None:
        for stream, progress in self._progress.items():
            handed = self._handed(stream)
            progress.see(self._clock(), handed, self._platform.status(stream).get("delivered"))

    def _handed(self, stream: str) -> int:
        return sum(len(feed.sent) for feed in self._feeds[stream])


@dataclass
class Nurse:
    """Observes whether each supervising DAG run continues, and triggers a new one if it does not.

    Attributes:
        needed: A text for each time that a person would have been needed.
    """

    platform: Platform
    clock: Callable[[], float]
    say: Callable[[str], None]
    needed: list[str] = field(default_factory=list)

    def looking(self) -> Background:
        """Observe while this is entered."""
        return Background(self.look, _ROUND_S)

    def look(self) -> None:
        """Observe once; an API server that does not answer is skipped."""
        for stream, run in self.platform.runs.items():
            live = self.platform.live(stream)
            try:
                state = live.run_state(run)
                if state in ("queued", "running"):
                    continue
                self._note(stream, run, state, self.platform.status(stream))
                self.platform.runs[stream] = live.trigger("run")
            except (httpx.HTTPError, AirflowApiError, AssertionError):
                continue

    def _note(self, stream: str, run: str, state: str, status: Mapping[str, Any]) -> None:
        text = (
            f"{self.clock():.0f} s: the run {run} that supervised {stream} has ended ({state}); its driver:"
            f" {status.get('state')}, {status.get('message') or 'no message'}"
        )
        self.needed.append(text)
        self.say(text)
