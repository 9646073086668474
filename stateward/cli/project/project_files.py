"""Files of a project, made from the templates of this release. A file that is there is never changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

FOLDER = Path(__file__).resolve().parent / "templates"
"""`project/` and `stream/`, with the paths that the files have in a project; `dot_` stands for a dot."""

_SUFFIX = ".j2"
_STREAM = "STREAM"


@dataclass(frozen=True)
class Written:
    """What was done, as paths in the project.

    Attributes:
        new: Files that were written.
        differ: Files that were there and have another content than the template of this release.
    """

    new: tuple[Path, ...]
    differ: tuple[Path, ...]


class NoProjectError(ValueError):
    """A folder is no project."""


def require_project(folder: Path) -> None:
    """Check that a folder is a project.

    Raises:
        NoProjectError: It is none.
    """
    from stateward.project.settings import is_project

    if not is_project(folder):
        raise NoProjectError(
            f"expected a project, with the folder include/streams, in {folder}, found none. Change into its"
            " folder, or lay out one: stateward init FOLDER"
        )


def render(kind: str, values: Mapping[str, str]) -> dict[Path, str]:
    """Render the templates of a kind, `project` or `stream`, by the files' paths in the project."""
    environment = Environment(autoescape=False, keep_trailing_newline=True, undefined=StrictUndefined)
    return {
        path: environment.from_string(template.read_text(encoding="utf-8")).render(values)
        for path, template in _templates(FOLDER / kind, values)
    }


def shared_file(path: str) -> str:
    """Return a file that a project has as the library's repository has it: a link, in the wheel a file."""
    return (FOLDER / Path(path).name.removeprefix(".")).read_text(encoding="utf-8")


def write(project: Path, files: Mapping[Path, str]) -> Written:
    """Write the files that are missing.

    Raises:
        OSError: A file cannot be written.
    """
    new, differ = [], []
    for path, text in files.items():
        target = project / path
        if target.exists():
            differ += [] if target.read_text(encoding="utf-8", errors="replace") == text else [path]
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        new.append(path)
    return Written(tuple(new), tuple(differ))


def _templates(folder: Path, values: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    for template in sorted(folder.rglob(f"*{_SUFFIX}")):
        path = str(template.relative_to(folder)).removesuffix(_SUFFIX).replace("dot_", ".")
        yield Path(path.replace(_STREAM, values.get("stream", ""))), template
