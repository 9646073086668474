"""Secrets of one installation: generated once, readable by its user only."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from base64 import urlsafe_b64encode
from dataclasses import asdict, dataclass
from pathlib import Path

ADMIN = "admin"


@dataclass(frozen=True)
class Secrets:
    """What Airflow's parts share, and the login of its UI."""

    jwt_secret: str
    session_key: str
    fernet_key: str
    admin_password: str

    @classmethod
    def load_or_create(cls, airflow_home: Path) -> Secrets:
        """Return the installation's secrets, generating them the first time."""
        path = airflow_home / "secrets.json"
        if path.exists():
            values = json.loads(path.read_text())
        else:
            values = asdict(cls._generate())
            _write_private(path, json.dumps(values, indent=1))
        loaded = cls(**values)
        # Airflow's SimpleAuthManager reads this file, and would make up a password that is not in it.
        _write_private(passwords_file(airflow_home), json.dumps({ADMIN: loaded.admin_password}))
        return loaded

    @classmethod
    def _generate(cls) -> Secrets:
        return cls(
            jwt_secret=secrets.token_urlsafe(48),
            session_key=secrets.token_urlsafe(48),
            fernet_key=urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            admin_password=secrets.token_urlsafe(12),
        )


def passwords_file(airflow_home: Path) -> Path:
    """Return the file with the users' passwords, in the format of Airflow's SimpleAuthManager."""
    return airflow_home / "passwords.json"


def _write_private(path: Path, content: str) -> None:
    """Write a file that is whole whenever it is read, also while several commands write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Private from the first byte on, not after a later chmod, and of a name that no other command has.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
