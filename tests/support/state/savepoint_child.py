"""A savepoint in a process of its own, which is killed before one of the things it does to the disk.

Arguments: the installation's folder, and how many it survives. It says how many there were if it ends.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.support.state.installed_stream import STREAM, Installed

# Not folders: they are opened to be synced, and which thread makes one differs from run to run.
_ACTS = ("open", "os.rename")


def main(folder: str, survives: str) -> None:
    installed = Installed(Path(folder))
    catalog = str(installed.folder / "data" / "savepoints" / STREAM)
    left = int(survives)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        path = str(arguments[0])
        if event in _ACTS and path.startswith(catalog) and not Path(path).is_dir():
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    installed.savepoint()
    print(int(survives) - left)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
