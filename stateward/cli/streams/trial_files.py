"""`stateward try STREAM EVENTS...`: a process per run, so that each has the code as it was saved last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from stateward.contract.process_output import CommandExit
from stateward.contract.reading import as_json
from stateward.contract.requests import TrialRequest
from stateward.control.launchers.launch import driver_config
from stateward.project.settings import Settings, python_path
from stateward.project.spec import SpecError, StreamSpec, load_spec

_JOB = "stateward.trial.file_job"
_LOOK_S = 0.1

Stamps = Mapping[Path, tuple[int, int]]


def run(stream: str, files: Sequence[str], *, watch: bool, rows: int) -> None:
    """Run the stream on the files, and print its tables; with `watch` again after each save.

    Raises:
        SpecError: The YAML is not there, or invalid.
        typer.BadParameter: A file is of no topic of the stream.
        typer.Exit: The run has failed.
    """
    settings = Settings()
    if watch:
        return again_and_again(settings, stream, files, rows=rows, wait=lambda: time.sleep(_LOOK_S))
    if not run_once(settings, stream, files, rows=rows):
        # 1, as for every other error: nothing is compared here.
        raise typer.Exit(CommandExit.DIFFERENT)
    return None


def again_and_again(
    settings: Settings, stream: str, files: Sequence[str], *, rows: int, wait: Callable[[], None]
) -> None:
    """Run now, and again whenever a file has changed; ends by an exception of `wait`, such as Ctrl-C."""
    console, before = Console(), None
    while True:
        # Before the run: a file that is saved while it runs is run again.
        if (now := stamps(settings, stream, files)) == before:
            wait()
            continue
        before = now
        console.rule(f"{stream} {datetime.now(UTC):%H:%M:%S}")
        try:
            run_once(settings, stream, files, rows=rows)
        except SpecError as error:
            print(f"stateward: {error}", file=sys.stderr)


def run_once(settings: Settings, stream: str, files: Sequence[str], *, rows: int) -> bool:
    """Run the stream once, in a process that prints its tables; return whether it could be done."""
    spec = load_spec(stream, settings.streams, settings.jobs)
    request = TrialRequest(
        config=driver_config(spec, settings, "try"),
        rows=rows,
        files=files_of(spec, files),
        now_ms=time.time_ns() // 1_000_000,
    )
    done = subprocess.run(
        [sys.executable, "-m", _JOB],
        input=json.dumps(as_json(request)).encode(),
        # Python puts the working directory before PYTHONPATH.
        cwd=settings.jobs.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path())},
        check=False,
    )
    return done.returncode == CommandExit.DONE


def files_of(spec: StreamSpec, files: Sequence[str]) -> dict[str, str]:
    """Return by topic its file.

    Raises:
        typer.BadParameter: A file is of no topic of the stream, or a topic has two.
    """
    topics = spec.source.names
    found = dict[str, str]()
    for text in files:
        topic, equals, name = text.partition("=")
        if not equals or topic not in topics:
            topic, name = topics[0], text
            if len(topics) > 1:
                raise typer.BadParameter(
                    f"{text}: stream {spec.stream} reads several topics. Name the topic of the file, such as"
                    f" {topic}={text}; the topics are {', '.join(topics)}."
                )
        if topic in found:
            raise typer.BadParameter(f"{text}: expected one file of topic {topic}, found two. Join them.")
        found[topic] = str(Path(name).absolute())
    return found


def stamps(settings: Settings, stream: str, files: Sequence[str]) -> Stamps:
    """Return when each file that a run depends on was saved, and its size; an absent one has no entry."""
    found = {}
    for file in _watched(settings, stream, files):
        try:
            at = file.stat()
        except OSError:
            continue
        found[file] = (at.st_mtime_ns, at.st_size)
    return found


def _watched(settings: Settings, stream: str, files: Sequence[str]) -> Iterator[Path]:
    yield settings.streams / f"{stream}.yaml"
    # A stream may import what others of the project share.
    yield from settings.jobs.rglob("*.py")
    for text in files:
        yield Path(text)
        yield Path(text.partition("=")[2])
