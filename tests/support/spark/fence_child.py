"""A writer that stops itself by SIGSTOP between its look at the lease and its commit.

Argument: the installation's folder.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable, Transaction
from deltalake.transaction import AddAction

from stateward.runtime.delta.data_files import add_files
from stateward.runtime.sink import table_commits
from stateward.state.operation.leased import take_over_all
from tests.support.state.installed_stream import Installed
from tests.unit.runtime.sink.test_fence import FULL, lease_of, sink_of


def main(folder: str) -> None:
    installed = Installed(Path(folder))
    lease = lease_of(installed, "first")
    epoch = lease.acquire().epoch

    def check() -> int:
        # Without the time: what counts here is the moment between the look and the commit.
        lease._require_mine(lease.read())
        return epoch

    take_over_all(installed.config, check)

    def stopped(
        table: DeltaTable, files: Sequence[AddAction], rows: int, transactions: Sequence[Transaction]
    ) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        add_files(table, files, rows, transactions)

    pytest.MonkeyPatch().setattr(table_commits, "add_files", stopped)
    sink_of(installed, check)(FULL, 0)


if __name__ == "__main__":
    main(sys.argv[1])
