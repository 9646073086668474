"""What an upgrade of a stream would change, which steps it takes, and how long the stream would pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateward.contract.reading import InvalidDocumentError
from stateward.contract.stream_control import Control
from stateward.control.care.cost import savepoint_cost
from stateward.control.care.record import read_record
from stateward.control.reconcile.observe import read_control, read_status
from stateward.control.releases import release as releases
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec
from stateward.rendering.human_units import format_duration

_ALLOWED = ("compatible", "evolves")
_UPGRADE = (
    "verdict on the state",
    "drain",
    "savepoint",
    "start with the current code and YAML",
    "watch; back to the savepoint and the running release if it is not healthy",
)
_OF_FILES = {"code", "library"}
# Names of settings that follow from the machine, its connections and its storage, and not from the project.
_OF_THE_INSTALLATION = ("bootstrap_servers", "create_topics", "state_cache_dir", "lease.uri")


@dataclass(frozen=True)
class Running:
    """What runs, or ran last.

    Attributes:
        release: Its release; None if there was no launch.
        is_desired: Whether the stream should run.
        differs: The parts in which its release differs from the project: `code`, `library`, `YAML`.
        files: The files of code and library that differ; None if the release is not on this machine.
        pause_s: How long an upgrade would stop it, seconds.
    """

    release: str | None
    is_desired: bool
    differs: Sequence[str] = ()
    files: Sequence[str] | None = ()
    pause_s: float = 0.0


@dataclass(frozen=True)
class UpgradePlan:
    """The plan of one stream; `text` and `as_json` show it.

    Attributes:
        stream: Its name.
        running: What runs.
        verdict: On the state, as JSON.
        settings: Name, before and now, as JSON, of each that differs.
        tables: Table, column, in the table and declared, of each column that differs.
        problem: Why there is no plan.
    """

    stream: str
    running: Running
    verdict: Mapping[str, Any]
    settings: Sequence[Sequence[str]]
    tables: Sequence[Sequence[str]]
    problem: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether an upgrade would be refused."""
        return not self.problem and self.verdict["level"] not in _ALLOWED

    @property
    def is_changed(self) -> bool:
        """Whether anything differs from what runs."""
        return bool(self.running.differs or self.settings or self.verdict["findings"])

    @property
    def steps(self) -> list[str]:
        """Return what has to be done."""
        if self.is_refused:
            refused = [one for one in self.verdict["findings"] if one["level"] not in _ALLOWED]
            return list(dict.fromkeys("; or ".join(one["ways_out"]) for one in refused))
        if self.running.release is None:
            return ["start, which begins from nothing"]
        if not self.is_changed:
            return []
        return list(_UPGRADE) if self.running.is_desired else ["start with the current code and YAML"]

    @property
    def pause_s(self) -> float | None:
        """How long the stream is expected to stop, seconds; None where that depends on what is chosen."""
        if self.is_refused:
            return None
        return self.running.pause_s if self.running.is_desired and self.is_changed else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the plan as a document."""
        if self.problem:
            return {"stream": self.stream, "problem": self.problem}
        return {
            "stream": self.stream,
            "release": self.running.release,
            "desired_running": self.running.is_desired,
            "changed": self.is_changed,
            "verdict": self.verdict["level"],
            "findings": self.verdict["findings"],
            "differs": list(self.running.differs),
            "files": None if self.running.files is None else list(self.running.files),
            "settings": [dict(zip(("name", "before", "now"), row, strict=True)) for row in self.settings],
            "tables": [
                dict(zip(("table", "column", "in_table", "declared"), row, strict=True))
                for row in self.tables
            ],
            "steps": self.steps,
            "pause_s": self.pause_s,
        }

    def text(self) -> list[str]:
        """Return the plan as lines for people."""
        if self.problem:
            return [f"{self.stream}: cannot be judged. {self.problem}"]
        told = [f"  state: {_finding(one)}" for one in self.verdict["findings"]]
        told += [f"  setting: {name}: {before} -> {now}" for name, before, now in self.settings]
        told += [f"  code: {line}" for line in self._code()]
        told += [f"  table: {_column(*row)}" for row in self.tables]
        told += [f"  step {number}: {step}" for number, step in enumerate(self.steps, 1)]
        if self.pause_s:
            told.append(f"  expected pause: about {format_duration(self.pause_s)}")
        return [f"{self.stream}: {self._summary()}", *told]

    def _summary(self) -> str:
        if self.is_refused:
            return f"{self.verdict['level']}; an upgrade would be refused."
        if self.running.release is None:
            return "was never started."
        return (
            f"{self.verdict['level']}; {'an upgrade is possible' if self.is_changed else 'nothing changes'}."
        )

    def _code(self) -> list[str]:
        parts = [part for part in self.running.differs if part in _OF_FILES]
        if self.running.files is None:
            return [
                f"another {' and '.join(parts)}; the release {self.running.release} is not on this machine"
            ]
        library = [name for name in self.running.files if name.startswith("stateward/")]
        more = [f"{len(library)} files of the library"] if library else []
        return [*(name for name in self.running.files if name not in library), *more]


def plan_of(spec: StreamSpec, settings: Settings, found: Mapping[str, Any]) -> UpgradePlan:
    """Plan the upgrade of a stream.

    Args:
        spec: The stream.
        settings: Where everything is.
        found: What the process of the lower floor has found, a `StreamChanges` as JSON.
    """
    own = [row for row in found["settings"] if not _is_of_the_installation(row[0])]
    try:
        running, problem = _running(spec, settings), found["problem"]
    except InvalidDocumentError as error:
        running, problem = Running(None, is_desired=False), str(error)
    return UpgradePlan(spec.stream, running, found["verdict"], own, found["tables"], problem)


def _is_of_the_installation(name: str) -> bool:
    return name in _OF_THE_INSTALLATION or name.endswith("_uri") or name.startswith("tables.")


def _running(spec: StreamSpec, settings: Settings) -> Running:
    layout = Layout.of(settings)
    control = read_control(layout, spec.stream)
    if control is None or control.release is None:
        return Running(None, is_desired=control is not None and control.desired == "running")
    differs = releases.upgrade_available(control.release, spec, settings)
    files: Sequence[str] | None = ()
    if set(differs) & _OF_FILES:
        try:
            files = releases.changed_files(spec.stream, control.release, settings)
        except releases.ReleaseError:
            files = None
    return Running(control.release, control.desired == "running", differs, files, _pause_s(control, layout))


def _pause_s(control: Control, layout: Layout) -> float:
    """Estimate the pause by the size of the state's files, which the savepoint copies."""
    looks = read_record(layout, control.stream).looks
    if looks:
        return savepoint_cost(looks[-1].files_bytes).pause_s
    status = read_status(layout, control.stream)
    sizes = () if status is None else (status.state_file_bytes, status.state_bytes, status.live_bytes)
    return savepoint_cost(max((size for size in sizes if size), default=0)).pause_s


def _finding(found: Mapping[str, Any]) -> str:
    return (
        f"{found['level']}: {found['what']}: was {found['before']}, is {found['now']}; {found['consequence']}"
    )


def _column(table: str, column: str, in_table: str, declared: str) -> str:
    return f"{table}.{column}: {in_table} -> {declared}" if column else f"{table}: {declared}"
