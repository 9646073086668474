"""Watch a run from outside: CPU time and memory of its process tree, and when it begins to read."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import psutil

_POLL_S = 0.1
# The tree is walked less often: a walk reads every process of the machine.
_POLLS_A_WALK = 5
# More than the answers to metadata requests, less than any consumer's first fetches.
_READING_BYTES = 256 * 1024


class Watch:
    """Samples one run in a thread, from `start` to `stop`.

    Attributes:
        reading_since: when the broker had sent the first records, seconds since 1970; None before that.
        peak_rss_bytes: largest sum of resident memory over the tree; shared pages count in each process.
    """

    def __init__(self, root_pid: int, broker_pid: int) -> None:
        self._root = psutil.Process(root_pid)
        self._broker = psutil.Process(broker_pid)
        self._cpu_s: dict[psutil.Process, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="watch", daemon=True)
        self._sent_before = self._sent()
        self._broker_cpu_before = _cpu_s(self._broker)
        self.reading_since: float | None = None
        self.peak_rss_bytes = 0
        self.broker_cpu_s = 0.0

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after a last sample."""
        self._ended.set()
        self._thread.join()

    @property
    def cpu_s(self) -> float:
        """CPU seconds, user and system, of every process seen, those that have ended included."""
        return sum(self._cpu_s.values())

    def end_processes(self, grace_s: float = 30) -> None:
        """End the remaining tree: SIGTERM to the root, which may stop its children, then SIGKILL to all."""
        self._walk()
        with contextlib.suppress(psutil.Error):
            self._root.send_signal(signal.SIGTERM)
            self._root.wait(grace_s)
        for process in self._cpu_s:
            # `kill` checks that the process id still belongs to the process that was seen.
            with contextlib.suppress(psutil.Error):
                process.kill()

    def _sample(self) -> None:
        polls = 0
        while True:
            ending = self._ended.is_set()
            if self.reading_since is None and self._sent() - self._sent_before > _READING_BYTES:
                self.reading_since = time.time()
            if ending or polls % _POLLS_A_WALK == 0:
                self._walk()
            if ending:
                return
            polls += 1
            self._ended.wait(_POLL_S)

    def _walk(self) -> None:
        with contextlib.suppress(psutil.Error):
            for process in (self._root, *self._root.children(recursive=True)):
                self._cpu_s.setdefault(process, 0.0)
        rss = 0
        for process in list(self._cpu_s):
            with contextlib.suppress(psutil.Error), process.oneshot():
                self._cpu_s[process] = max(self._cpu_s[process], _cpu_s(process))
                rss += process.memory_info().rss
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss)
        with contextlib.suppress(psutil.Error):
            self.broker_cpu_s = _cpu_s(self._broker) - self._broker_cpu_before

    def _sent(self) -> int:
        """Bytes that the broker has written anywhere; sending records from its log counts."""
        with contextlib.suppress(psutil.Error):
            return int(self._broker.io_counters().write_chars)
        return 0


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
