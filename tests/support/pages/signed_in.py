"""Airflow's own authentication in this process, and a person whom it knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signed_in(username: str = "reader", role: str = "viewer") -> Iterator[str]:
    """Give the token of a person, which Airflow's auth manager accepts in the meantime."""
    from airflow.api_fastapi.app import create_app, get_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    create_app(apps="core")  # Makes the auth manager, which checks the tokens.
    try:
        yield get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=username, role=role))
    finally:
        purge_cached_app()
