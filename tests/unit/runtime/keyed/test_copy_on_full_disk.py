"""A full disk under the copies of states: the worker reports it and survives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stateward.runtime.cause import DISK_FULL, cause_of
from stateward.runtime.driver.failure import is_transient
from tests.support.small_disk import small_disk

CHECKOUT = Path(__file__).resolve().parents[4]
# The worker is a separate process, as in a driver.
WORKER = """
import os, sys
from pathlib import Path
from stateward.runtime.keyed.copy_folders import prepare_copy
from stateward.runtime.keyed.sorted_run import CachedState
from stateward.runtime.keyed.state_cache import StateCache

root, filler, checkpoint = sys.argv[1], Path(sys.argv[2]), "file:///checkpoints/s/g0001"

def batch(number):
    cache = StateCache(root, checkpoint, 0)
    keys = range(number * 1000, number * 1000 + 1000)
    cache.bucket(1).add({f"key-{key}": CachedState(1, 1, 1000, os.urandom(1000)) for key in keys})
    cache.commit()

def fill():
    with filler.open("ab", buffering=0) as file:
        while True:
            file.write(b"\\0" * 4096)

def run(work):
    try:
        work()
    except Exception as error:
        print(f"{type(error).__module__}.{type(error).__name__}: {error}", flush=True)
"""
GROWS = """
done = 0
def grow():
    global done
    while True:
        batch(done)
        done += 1
run(grow)
filler.unlink()
batch(done)
cache = StateCache(root, checkpoint, 0)
assert len(cache.bucket(1).find(f"key-{key}" for key in range((done + 1) * 1000))) == (done + 1) * 1000
"""
OPENS = """
prepare_copy(root, checkpoint).joinpath("p0").mkdir()
try:
    fill()
except OSError:
    pass
run(lambda: batch(0))
filler.unlink()
batch(0)
"""


def said_by(tmp_path: Path, work: str) -> str:
    with small_disk(tmp_path / "disk", 24 * 2**20) as disk:
        filler = disk / "filler"
        filler.write_bytes(b"\0" * (16 * 2**20))
        command = [sys.executable, "-c", WORKER + work, str(disk / "copies"), str(filler)]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def require_full_disk(said: str) -> None:
    # As in the failure of a Python task.
    failure = RuntimeError(f"[STREAM_FAILED] pyspark.errors.exceptions.base.PythonException: {said}")
    assert cause_of(failure) == DISK_FULL, said
    assert is_transient(failure)


def test_a_copy_that_cannot_grow_is_an_error_and_not_the_end_of_the_worker(tmp_path: Path) -> None:
    require_full_disk(said_by(tmp_path, GROWS))


def test_nor_is_one_that_cannot_be_opened(tmp_path: Path) -> None:
    require_full_disk(said_by(tmp_path, OPENS))
