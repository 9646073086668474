"""`stateward jars`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from stateward.platform.jars.fetch import LOCK_FILE, Jar, fetch, format_lock, missing, read_lock
from stateward.project.settings import Settings


def run(*, lock: bool, into: Path | None) -> None:
    """Fetch the pinned JARs, or resolve them again."""
    settings = Settings()
    console = Console()
    if lock:
        _lock(settings, console)
        return
    pinned = read_lock()
    folder = into or settings.jars
    total = sum(jar.size for _, jar in missing(pinned, folder))
    columns = (
        TextColumn("JARs"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[name]}"),
    )
    with Progress(*columns, console=console, disable=total == 0) as progress:
        task = progress.add_task("JARs", total=total, name="")

        def report(jar: Jar) -> None:
            progress.update(task, advance=jar.size, name=jar.file_name)

        count = fetch(pinned, folder, settings.maven_repository, report)
    there = sum(map(len, pinned.values()))
    console.print(
        f"{there} JARs in {folder}, all verified ({count} fetched now).", highlight=False, soft_wrap=True
    )


def _lock(settings: Settings, console: Console) -> None:
    from stateward.platform.jars.resolution import read_wishes, resolve

    with console.status("resolving jars.toml"):
        pinned = resolve(read_wishes(), settings.maven_repository)
    LOCK_FILE.write_text(format_lock(pinned))
    for name, jars in pinned.items():
        console.print(f"{name}: {len(jars)} JARs pinned in {LOCK_FILE.name}", highlight=False)
