"""`stateward init`."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from stateward.cli.project.project_files import Written, render, shared_file, write

_SHARED = (".env.example", "include/maintenance.yaml", "include/notifiers.yaml")
_NAME = re.compile(r"^name: \S+$", re.MULTILINE)
_IMAGE = re.compile(r"^  image: \S+$", re.MULTILINE)


def run(folder: Path) -> None:
    """Lay out a project, and say what to do next."""
    project = folder.expanduser().resolve()
    written = init(project)
    console = Console()
    report(console, project, written)
    if written.new:
        inside = "" if project == Path.cwd() else f"cd {folder} && "
        console.print(f"\nNext: {inside}stateward new stream NAME", highlight=False)


def init(project: Path) -> Written:
    """Write the files of a project that are missing.

    Args:
        project: Its folder, absolute.
    """
    (project / "include" / "streams").mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9_-]", "-", project.name.lower()).strip("-_") or "streams"
    files = render("project", {"project": name, "version": version("stateward")})
    files[Path("docker-compose.yaml")] = compose_file(name)
    for path in _SHARED:
        files[Path(path)] = shared_file(path)
    return write(project, files)


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
        console.print(f"[yellow]kept[/yellow]   {path}, which differs from the template", highlight=False)
    console.print(f"{len(written.new)} new files in {project}", highlight=False, soft_wrap=True)
