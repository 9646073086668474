"""Runs `python -m proof.truth`, which computes the expected output of each stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from proof.traffic.records import Slice
from stateward.project.settings import CHECKOUT


class TruthProcessError(RuntimeError):
    """The expected output could not be computed."""


class TruthProcess:
    """The process `python -m proof.truth`. Use as a context manager.

    Args:
        configurations: Resolved configurations of the streams.
        into: Folder for the expected rows.
        recorded_ms: When the records are sent, milliseconds since 1970 UTC.
    """

    def __init__(self, configurations: Sequence[Mapping[str, Any]], into: Path, recorded_ms: int) -> None:
        self._request = {"recorded_ms": recorded_ms, "into": str(into), "configs": list(configurations)}
        self._encode = msgspec.msgpack.Encoder().encode

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="stateward-traffic-")
        request = Path(self._folder.name) / "request.json"
        request.write_text(json.dumps(self._request), encoding="utf-8")
        # To a file, because a full pipe without a reader would block it.
        self._errors = (Path(self._folder.name) / "errors").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "proof.truth", str(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._folder.cleanup()

    def see(self, piece: Slice) -> None:
        """Send the records of a slice.

        Raises:
            TruthProcessError: The process has ended.
        """
        frame = self._encode((piece.topic, piece.records))
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(len(frame).to_bytes(4, "big") + frame)
        except BrokenPipeError:
            raise self._failed() from None

    def finish(self) -> dict[str, Any]:
        """Return by stream its expected counts, once its rows are written.

        Raises:
            TruthProcessError: A record contradicts its mark.
        """
        answer, _ = self._process.communicate()
        if self._process.returncode:
            raise self._failed()
        found: dict[str, Any] = json.loads(answer)
        return found

    def _failed(self) -> TruthProcessError:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return TruthProcessError(lines[-1] if lines else f"truth: exit code {self._process.returncode}")
