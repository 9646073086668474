"""`stateward update`: the templates of this release, merged into the files of a project."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from stateward.cli.project.init import compose_name, layout, library_version, project_name
from stateward.cli.project.layout_record import FILE, LayoutRecord, read_record, write_record
from stateward.cli.project.project_files import require_project
from stateward.cli.project.template_merge import (
    Change,
    Kind,
    MergeError,
    change_of,
    has_markers,
    merge_by_git,
)
from stateward.contract.process_output import UpdateExit
from stateward.contract.storage import replace_file
from stateward.project.project import SettingsLoadError
from stateward.project.settings import Settings, is_project
from stateward.project.spec_schema import SCHEMA_FILE, schema_text

_WRITTEN = (Kind.NEW, Kind.UPDATED, Kind.MERGED, Kind.CONFLICT, Kind.REMOVED)
_COLOURS = {Kind.CONFLICT: "red", Kind.KEPT: "yellow"}
_RESOLVE = (
    "Both versions are in the file, between <<<<<<< and >>>>>>>: keep what is right, remove the markers, and"
    " commit."
)


class UpdateError(RuntimeError):
    """The project cannot be updated; nothing was changed."""


class UnresolvedError(UpdateError):
    """Files still have conflicts of an earlier update."""


@dataclass(frozen=True)
class UpdatePlan:
    """What an update does.

    Attributes:
        changes: What is done with the files.
        record: The record afterwards.
    """

    changes: tuple[Change, ...]
    record: LayoutRecord

    def of_kind(self, *kinds: Kind) -> list[Path]:
        """Return the paths of the changes of some kinds."""
        return [change.path for change in self.changes if change.kind in kinds]


def run(*, fresh: Path | None, dry_run: bool) -> None:
    """Update the project, and print what was done.

    Raises:
        UpdateError: The project has no record, or a file cannot be merged.
        typer.Exit: There are conflicts, of this update or of an earlier one.
    """
    project = Settings().project
    try:
        plan = plan_update(project, fresh)
    except UnresolvedError as error:
        _stop(str(error))
    if not dry_run:
        apply(project, plan)
    report(Console(), project, plan, dry_run=dry_run)
    if conflicts := plan.of_kind(Kind.CONFLICT):
        _stop(f"{'There would be conflicts' if dry_run else 'Conflicts'} in {_listed(conflicts)}.")


def plan_update(project: Path, fresh: Path | None = None) -> UpdatePlan:
    """Compare the files of a project with the templates; nothing is written.

    Args:
        project: Its folder, absolute.
        fresh: A folder laid out by the release that laid out the project, for files that have no record.

    Raises:
        NoProjectError: The folder is no project.
        UnresolvedError: An earlier update left conflicts.
        UpdateError: There is neither a record nor such a folder, or a file cannot be merged.
    """
    require_project(project)
    record = read_record(project)
    name = record.project if record else compose_name(project) or project_name(project)
    new = layout(name)
    base = _base(project, record, fresh, new)
    if unresolved := [path for path in sorted({*base, *new}) if has_markers(_content(project / path) or b"")]:
        raise UnresolvedError(
            f"Nothing was changed: conflicts of an earlier update are not resolved in {_listed(unresolved)}."
        )
    changes = _changes(project, base, new, f"template of {record.library}" if record else "former template")
    return UpdatePlan(
        (*changes, *_schema(project)),
        LayoutRecord.of(
            {path: text for path, text in new.items() if path in base or _is_taken(project / path, text)},
            project=name,
            library=library_version(),
        ),
    )


def apply(project: Path, plan: UpdatePlan) -> None:
    """Write the files, and the record last: an update that was interrupted is repeated by the next one.

    Raises:
        OSError: A file cannot be written.
    """
    for change in plan.changes:
        target = project / change.path
        if change.kind is Kind.REMOVED:
            target.unlink()
        elif change.content is not None:
            mode = target.stat().st_mode if target.exists() else None
            replace_file(target, change.content)
            if mode is not None:
                target.chmod(mode)
    write_record(project, plan.record)


def report(console: Console, project: Path, plan: UpdatePlan, *, dry_run: bool) -> None:
    """Print a line for each file, and how many were changed."""
    for change in plan.changes:
        colour = _COLOURS.get(change.kind, "green")
        note = f", {change.note}" if change.note else ""
        said = f"[{colour}]{change.kind:8}[/{colour}] {change.path}{note}"
        console.print(said, highlight=False, soft_wrap=True)
    count, would = len(plan.of_kind(*_WRITTEN)), "would be " if dry_run else ""
    console.print(
        f"{count} files {would}changed in {project}: templates of stateward {plan.record.library}",
        highlight=False,
        soft_wrap=True,
    )


def _stop(reason: str) -> NoReturn:
    Console(stderr=True).print(f"{reason} {_RESOLVE}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(UpdateExit.CONFLICT)


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(map(str, paths))


def _base(
    project: Path, record: LayoutRecord | None, fresh: Path | None, new: Collection[Path]
) -> dict[Path, str]:
    """Return the former templates: those of the record, and for other files those of a folder."""
    if record is None and fresh is None:
        raise UpdateError(
            f"expected {FILE}, the record of the templates that {project} was laid out from, found none:"
            " it was laid out before stateward init wrote one. Lay out an empty folder by the release that"
            " laid out the project, or by this one if you do not have it any more: stateward init FOLDER."
            " Then call: stateward update --base FOLDER (docs/your-project.md)"
        )
    return {**(_files_of(fresh, project, new) if fresh else {}), **(record.texts() if record else {})}


def _files_of(fresh: Path, project: Path, paths: Collection[Path]) -> dict[Path, str]:
    """Return the former templates from a folder that has nothing else.

    A copy of the project would make every edit in it a part of the template.
    """
    folder = fresh.expanduser().resolve()
    streams = folder / "include" / "streams"
    if not is_project(folder) or any(streams.glob("*.yaml")) or folder.samefile(project):
        raise UpdateError(
            f"--base {fresh}: expected a folder as stateward init lays it out, without streams and edits,"
            " found another one. Lay it out: stateward init FOLDER"
        )
    return {path: (folder / path).read_text(encoding="utf-8") for path in paths if (folder / path).is_file()}


def _changes(
    project: Path, base: Mapping[Path, str], new: Mapping[Path, str], before: str
) -> Iterator[Change]:
    merge = partial(merge_by_git, before=before, after=f"template of {library_version()}")
    for path in sorted({*base, *new}):
        former, template = (
            None if text is None else text.encode() for text in (base.get(path), new.get(path))
        )
        target = project / path
        if target.is_symlink() or (target.exists() and not target.is_file()):
            if former != template:
                yield Change(path, Kind.KEPT, note="which is no regular file")
            continue
        try:
            change = change_of(path, former, _content(target), template, merge)
        except MergeError as error:
            raise UpdateError(f"{path}: {error}. Nothing was changed.") from error
        if change is not None:
            yield change


def _is_taken(file: Path, template: str) -> bool:
    """Whether a file without a record is, or will be, as its template; another one is the person's own."""
    return _content(file) in (None, template.encode())


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _schema(project: Path) -> Iterator[Change]:
    """Yield the schema of the YAMLs, which `stateward new stream` has made, as this release makes it."""
    path = Path("include", "streams", SCHEMA_FILE)
    there = _content(project / path)
    if there is None:
        return
    try:
        made = schema_text().encode()
    except SettingsLoadError as error:
        yield Change(path, Kind.KEPT, note=f"because the settings of a stream cannot be read: {error}")
        return
    if made != there:
        yield Change(path, Kind.UPDATED, made)
