"""`stateward lease`."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from stateward.contract.lease import read_holdings, read_lease
from stateward.platform.running import running_settings
from stateward.project.layout import Layout
from stateward.project.settings import Settings


def run(stream: str, *, last: int) -> None:
    """Print the current and former holders of a stream's lease."""
    layout = Layout.of(running_settings(Settings()))
    lease, now = read_lease(layout.lease_uri(stream)), datetime.now(UTC)
    console = Console()
    if lease is None:
        console.print(f"{stream}: its lease was never held", highlight=False)
        return
    held = f"until {lease.expires_at:%H:%M:%S} UTC unless renewed" if lease.held_at(now) else "not held now"
    console.print(f"{stream}: epoch {lease.epoch}, run {lease.run_id}, {held}", highlight=False)
    table = Table("epoch", "run", "process", "host", "since", "until", "how it ended")
    for one in read_holdings(layout.lease_uri(stream))[-last:]:
        host = one.host.partition("/")[0]
        until = f"{one.until:%Y-%m-%d %H:%M:%S}" if one.until else ""
        end = "" if one.end == "open" else one.end
        table.add_row(
            str(one.epoch), one.run_id, str(one.pid), host, f"{one.since:%Y-%m-%d %H:%M:%S}", until, end
        )
    console.print(table)
