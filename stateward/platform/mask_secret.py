"""The secret by which this installation masks personal values: made up once, readable by its user only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from stateward.project.settings import Settings

_BYTES = 32


def mask_secret(settings: Settings) -> str:
    """Return the secret: of the settings, else of a file under the home, which is made when it is not there.

    With another secret the same person looks like another one. So where tasks run on several machines, all
    are given the same by `STATEWARD_MASK_SECRET`.
    """
    if settings.mask_secret is not None:
        return settings.mask_secret.get_secret_value()
    path = settings.home / "mask-secret"
    if not path.exists():
        _make(path)
    return path.read_text(encoding="ascii").strip()


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_hex(_BYTES))
    try:
        # Whole or not at all, and of two tasks the first one's counts.
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
