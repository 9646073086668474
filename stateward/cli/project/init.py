"""`stateward init`."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from stateward.cli.project.layout_record import LayoutRecord, read_record, write_record
from stateward.cli.project.project_files import Written, render, shared_file, write

_SHARED = (".env.example", "include/batch_jobs.yaml", "include/maintenance.yaml", "include/notifiers.yaml")
_NAME = re.compile(r"^name: \S+$", re.MULTILINE)
_IMAGE = re.compile(r"^  image: \S+$", re.MULTILINE)


def run(folder: Path) -> None:
    """Lay out a project, and say what to do next."""
    project = folder.expanduser().resolve()
    written = init(project)
    console = Console()
    report(console, project, written)
    inside = "" if project == Path.cwd() else f"cd {folder} && "
    record = read_record(project)
    if record is not None and any(path.as_posix() in record.files for path in written.differ):
        console.print(
            f"\nTo merge the templates into them: {inside}stateward update", highlight=False, soft_wrap=True
        )
    if written.new:
        console.print(f"\nNext: {inside}stateward new stream NAME", highlight=False, soft_wrap=True)


def init(project: Path) -> Written:
    """Write the files of a project that are missing, and record them.

    Args:
        project: Its folder, absolute.
    """
    record = read_record(project)
    name, library = (record.project, record.library) if record else (project_name(project), library_version())
    files = layout(name)
    written = write(project, files)
    # A file that was there is the person's own, or one of an earlier release.
    taken = {path: text for path, text in files.items() if path not in written.differ}
    former = record.texts() if record else {}
    write_record(project, LayoutRecord.of({**former, **taken}, project=name, library=library))
    return written


def layout(name: str) -> dict[Path, str]:
    """Return the files of a project of a name, as the templates of this release have them."""
    files = render("project", {"project": name, "version": library_version()})
    files[Path("docker-compose.yaml")] = compose_file(name)
    for path in _SHARED:
        files[Path(path)] = shared_file(path)
    return files


def library_version() -> str:
    """Return the version of the library that is installed."""
    return version("stateward")


def project_name(project: Path) -> str:
    """Return the name of a project that is laid out in a folder."""
    return re.sub(r"[^a-z0-9_-]", "-", project.name.lower()).strip("-_") or "streams"


def compose_name(project: Path) -> str | None:
    """Return the name that a project's services have; None if it has no such file or name."""
    try:
        text = (project / "docker-compose.yaml").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    found = _NAME.search(text)
    return found[0].removeprefix("name: ") if found else None


def compose_file(project: str) -> str:
    """Return the library's own file, under the name of the project.

    Args:
        project: Lower-case letters, digits, `-` and `_`.
    """
    text = shared_file("docker-compose.yaml")
    return _IMAGE.sub(f"  image: {project}", _NAME.sub(f"name: {project}", text, count=1), count=1)


def report(console: Console, project: Path, written: Written) -> None:
    """Print what was written, and what differs from the templates."""
    for path in written.new:
        console.print(f"[green]new[/green]    {path}", highlight=False)
    for path in written.differ:
        console.print(
            f"[yellow]kept[/yellow]   {path}, which differs from the template",
            highlight=False,
            soft_wrap=True,
        )
    console.print(f"{len(written.new)} new files in {project}", highlight=False, soft_wrap=True)
