"""`python -m benchmarks.together`: nine streams beside each other on one platform: memory, and validations.

The topics are full before the streams start. The memory of the whole installation is measured when every
stream has read them, and again when all tables are validated.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable

from benchmarks.harness.checkouts import add_checkout
from benchmarks.harness.results import append_result
from benchmarks.harness.roles import DRIVER, JVM, WORKERS, role_of
from proof.traffic.generate import Plan
from proof.traffic.play import Playing, play
from proof.traffic.profiles import profile_named
from stateward.contract.names import QUALITY_VALIDATIONS
from stateward.contract.stream_status import OUTCOMES
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec, load_specs
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.spark.launches import checkout_python
from tests.support.waiting import wait_until

PLATFORM = "platform"
# It computes the rows of `user_sessions` once more.
_LEFT_OUT = ("session_windows",)
_MINUTES = 5
_UP_S, _RUNNING_S, _READ_S, _VALIDATED_S = 420.0, 600.0, 1800.0, 3600.0


def main(arguments: list[str]) -> int:
    """Measure, check the counts, and print a line of JSON; returns 0 unless a count was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.together", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--records", type=int, default=450_000, help="(%(default)s)")
    parser.add_argument("--profile", default="storm", help="of the traffic (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the traffic (%(default)s)")
    add_checkout(parser)
    given = parser.parse_args(arguments)
    plan = Plan(profile_named(given.profile), given.seed, given.records / _MINUTES / 60, _MINUTES)
    folder = Path(tempfile.mkdtemp(prefix="stateward-together-"))
    command = str(Path(checkout_python(given.checkout.folder)).parent / "stateward")
    installation = Installation.in_folder(folder / "home", command=command, project=given.checkout.folder)
    specs = [one for one in load_specs(installation.settings.streams)[0] if one.stream not in _LEFT_OUT]
    result = {
        **given.checkout.origin(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "records": plan.total,
    }
    try:
        installation.must_run("up", timeout_s=_UP_S)
        playing = Playing(plan, installation.settings, out=folder / "truth")
        expected = play(playing, datetime.now(UTC))["streams"]
        expected = {spec.stream: expected.get(spec.stream, {}) for spec in specs}
        result |= _measure(installation, specs, expected)
    finally:
        installation.must_run("down", timeout_s=_UP_S)
    shutil.rmtree(folder)
    append_result(Settings().home / "bench" / "together.jsonl", result)
    print(json.dumps(result), flush=True)
    return 0 if result["correct"] else 1


def _measure(
    installation: Installation, specs: Sequence[StreamSpec], expected: Mapping[str, Any]
) -> dict[str, Any]:
    begun = time.monotonic()
    _read(installation, expected)
    read = time.monotonic()
    print(f"all is read after {read - begun:.0f} s", flush=True)
    after_reading = memory(installation)
    tables = [(spec.stream, table) for spec in specs if spec.quality for table in spec.quality.tables]
    _validate(installation, tables)
    validated = time.monotonic()
    wrong = _wrong_counts(installation, expected)
    after = memory(installation)
    return {
        "streams": len(specs),
        "tables": len(tables),
        "read_s": round(read - begun, 1),
        "validated_s": round(validated - read, 1),
        "memory_gb": round(sum(rss for rss, _ in after.values()), 2),
        "pss_gb": round(sum(pss for _, pss in after.values()), 2),
        "rss_and_pss_gb": {role: [round(one, 2) for one in used] for role, used in after.items()},
        "rss_gb_after_reading": round(sum(rss for rss, _ in after_reading.values()), 2),
        "correct": not wrong,
        "wrong": wrong,
    }


def _read(installation: Installation, expected: Mapping[str, Any]) -> None:
    """Start the streams, and wait until each has read all."""
    streams = [LiveStream(name, installation) for name in expected]
    for stream in streams:
        stream.trigger("run")
    for stream in streams:
        stream.wait_running(_RUNNING_S)
        print(f"{stream.name} runs", flush=True)

    def unread() -> list[str]:
        return [text for one in streams if (text := _unread(one, expected[one.name]))]

    wait_until(lambda: not unread(), _READ_S, lambda: f"all is read: {unread()}", poll_s=1)


def _validate(installation: Installation, tables: Sequence[tuple[str, str]]) -> None:
    """Wait until the tables are validated as they are."""
    # Maintenance can add versions later, which need no validation.
    versions = {one: DeltaTable(installation.layout.table_uri(one[1])).version() for one in tables}
    wait_until(
        lambda: not _not_validated(installation, versions),
        _VALIDATED_S,
        lambda: f"all is validated: {_not_validated(installation, versions)}",
        poll_s=2,
    )


def _unread(stream: LiveStream, counts: Mapping[str, Any]) -> str:
    """What a stream has not read yet; empty if it has read all."""
    status = stream.status()
    if "accepted" not in counts:
        # The outcome of each record of such a stream depends on when it was read.
        return f"{stream.name}: lag {status.get('lag_records')}" if status.get("lag_records") != 0 else ""
    found = {name: status.get(name) for name in OUTCOMES}
    wanted = {name: counts[name] for name in OUTCOMES}
    return "" if found == wanted else f"{stream.name}: {found}, expected {wanted}"


def _not_validated(installation: Installation, versions: Mapping[tuple[str, str], int]) -> list[str]:
    """The tables of streams that no validation has covered up to a version."""
    uri = installation.layout.table_uri(QUALITY_VALIDATIONS)
    done: Counter[tuple[str, str]] = Counter()
    if DeltaTable.is_deltatable(uri):
        rows = DeltaTable(uri).to_pyarrow_table(columns=["stream", "table", "table_version"]).to_pylist()
        for row in rows:
            one = row["stream"], row["table"]
            done[one] = max(done[one], row["table_version"])
    return [one[1] for one, version in versions.items() if done.get(one, -1) < version]


def _wrong_counts(installation: Installation, expected: Mapping[str, Any]) -> dict[str, str]:
    """The tables that have another number of rows than the records that were sent make."""
    return {
        table: f"{rows} rows expected, {found} found"
        for counts in expected.values()
        for table, rows in counts.get("rows", {}).items()
        if (found := DeltaTable(installation.layout.table_uri(table)).count()) != rows
    }


def memory(installation: Installation) -> dict[str, tuple[float, float]]:
    """Memory by role, GB: resident, and with each page that processes share counted once."""
    used = dict.fromkeys((JVM, DRIVER, WORKERS, PLATFORM), (0.0, 0.0))
    for owned in installation.processes():
        try:
            role = PLATFORM if owned.stream is None else role_of(owned.process)
            found = owned.process.memory_full_info()
        except psutil.Error:
            continue  # ended meanwhile
        rss, pss = used[role]
        used[role] = (rss + found.rss / 1e9, pss + found.pss / 1e9)
    return used


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
