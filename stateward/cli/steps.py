"""Progress of slow steps: a live list on a terminal, one line per change elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from stateward.contract.process_output import READY


class Steps:
    """Shows the step and duration of each part. `report` is thread-safe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._shown: dict[str, tuple[str, float | None]] = {}
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._render, transient=False)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def report(self, part: str, what: str) -> None:
        """Say what happens to `part`; `READY` ends its line."""
        with self._lock:
            started = self._started.setdefault(part, time.monotonic())
            before = self._shown.get(part)
            took = time.monotonic() - started if what == READY else None
            self._shown[part] = (what, took)
        if not self._console.is_terminal and (before is None or before[0] != what):
            after = f" ({took:.1f} s)" if took is not None else ""
            self._console.print(f"{part:<14} {what}{after}", highlight=False)

    def _render(self) -> Table:
        table = Table.grid(padding=(0, 2))
        with self._lock:
            for part, (what, took) in self._shown.items():
                mark = Spinner("dots") if took is None else "[green]✓"
                seconds = took if took is not None else time.monotonic() - self._started[part]
                table.add_row(mark, part, what, f"[dim]{seconds:.1f} s")
        return table
