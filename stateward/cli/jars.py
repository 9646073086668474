"""`stateward jars`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from stateward.platform.jars.fetch import (
    LOCK_FILE,
    S3_LOCK_FILE,
    Jar,
    Lock,
    fetch,
    format_lock,
    missing,
    read_lock,
)
from stateward.project.settings import Settings


def run(*, lock: bool, into: Path | None, other: str | None = None, archive: bool = True) -> None:
    """Fetch the pinned JARs, or resolve them again.

    Args:
        lock: Whether to resolve them again.
        into: The parent of the folders of the sets; that of the settings without it.
        other: A set of `s3_jars.lock` to fetch instead.
        archive: Whether to archive the classes that a driver loads from them, if they are fetched to where
            the settings say.

    Raises:
        ValueError: There is no such set.
    """
    settings = Settings()
    console = Console()
    if lock:
        _lock(settings, console)
        return
    pinned = read_lock() if other is None else _set(other)
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
    if archive and into is None and other is None:
        _archive(folder, console)


def _archive(jars: Path, console: Console) -> None:
    from stateward.control.launchers.driver_process import LaunchError
    from stateward.control.launchers.local_jvm import class_archive
    from stateward.platform.jars.class_archive import ClassArchiveError, archive_classes
    from stateward.platform.jars.java import JavaNotFoundError

    try:
        with console.status("archiving the classes of Spark"):
            written = archive_classes(jars)
    except (ClassArchiveError, JavaNotFoundError, LaunchError) as error:
        said = f"Drivers start without an archive of classes: {error}"
    else:
        said = f"Classes of Spark in {class_archive(jars)} ({'archived now' if written else 'there before'})."
    console.print(said, highlight=False, soft_wrap=True)


def _set(name: str) -> Lock:
    sets = read_lock(S3_LOCK_FILE)
    if name not in sets:
        raise ValueError(f"--set: expected one of {sorted(sets)}, found {name!r}")
    return {name: sets[name]}


def _lock(settings: Settings, console: Console) -> None:
    from stateward.platform.jars.resolution import read_wishes, resolve

    with console.status("resolving jars.toml"):
        pinned = resolve(read_wishes(), settings.maven_repository)
    LOCK_FILE.write_text(format_lock(pinned))
    for name, jars in pinned.items():
        console.print(f"{name}: {len(jars)} JARs pinned in {LOCK_FILE.name}", highlight=False)
