"""A project: the folder of its streams, and what each of them declares. The library names no stream.

A driver imports this module: it has the standard library and the contract only.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateward.contract.stream_settings import StreamSettings

if TYPE_CHECKING:
    from stateward.project.settings import Settings

PACKAGE = "spark_jobs"
"""The package of a project's streams, each in a folder of its name."""

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"


class NoSuchStreamError(LookupError):
    """The project has no such stream."""


class SettingsLoadError(RuntimeError):
    """A stream's `model.py` cannot be read for its settings."""


@dataclass(frozen=True)
class Project:
    """The streams of one project.

    Attributes:
        jobs: The folder of the package `spark_jobs`.
    """

    jobs: Path

    @classmethod
    def of(cls, settings: Settings) -> Project:
        """Return the project that is deployed."""
        return cls(settings.jobs)

    @classmethod
    def imported(cls) -> Project:
        """Return the project whose package this process imports."""
        return cls(Path(importlib.import_module(PACKAGE).__path__[0]))

    def streams(self) -> list[str]:
        """Return the names of the streams, sorted."""
        return sorted(file.parent.name for file in self.jobs.glob("*/declaration.py"))

    def declaration(self, stream: str) -> Any:
        """Import what a stream declares: a `StreamJob`, `NativeJob` or `LandingJob`.

        Raises:
            NoSuchStreamError: The package has no such stream.
        """
        name = f"{PACKAGE}.{stream}.declaration"
        try:
            return importlib.import_module(name).JOB
        except ModuleNotFoundError as error:
            if error.name not in (name, name.rpartition(".")[0]):
                raise
            raise NoSuchStreamError(
                f"stream {stream}: expected its declaration in {name.replace('.', '/')}.py, found no such "
                "file: deploy the release that has it"
            ) from error

    def settings(self, stream: object) -> type[StreamSettings] | None:
        """Return the class of a stream's settings; None if it has none.

        The stream's `model.py` is read as a file, so that no process keeps that of an earlier deployment.

        Raises:
            SettingsLoadError: The file cannot be executed, or has several such classes.
        """
        if not isinstance(stream, str) or not re.fullmatch(NAME_PATTERN, stream):
            return None
        file = self.jobs / stream / "model.py"
        try:
            at = file.stat()
        except OSError:
            return None
        return _settings_in(file, stream, at.st_mtime_ns, at.st_size)


@functools.lru_cache(maxsize=256)
def _settings_in(file: Path, stream: str, _changed_ns: int, _size: int) -> type[StreamSettings] | None:
    name = f"_stateward_model_of_{stream}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    # A dataclass looks up its annotations in the module of its name.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SettingsLoadError(f"{type(error).__name__} in {file}: {error}") from error
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, StreamSettings) and value.__module__ == name
    ]
    if len(found) > 1:
        raise SettingsLoadError(f"several classes in {file}: {', '.join(one.__name__ for one in found)}")
    return found[0] if found else None


def own_line(error: BaseException) -> str | None:
    """Return the file and line where an error came from in a project's code; None if it did not.

    That is code which is neither the library's, nor Python's, nor of a package.
    """
    # For errors alone: a driver starts without them.
    import sysconfig
    import traceback

    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    packages = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    others = (Path(__file__).parents[1], *packages)
    for file, line in reversed(places):
        if Path(file).is_file() and not any(Path(file).is_relative_to(other) for other in others):
            return f"{file}:{line}"
    return None
