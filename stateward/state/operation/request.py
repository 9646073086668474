"""What is to be done: one JSON document, which the control plane writes and the job reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateward.contract import storage
from stateward.runtime.api.config import Config, parse_config
from stateward.runtime.api.key_logic import masked_key
from stateward.state.operation.errors import StateError

VERSION = 1


@dataclass(frozen=True)
class Request:
    """One operation.

    Attributes:
        operation: Its id, which begins with a UTC stamp.
        verb: What is to be done.
        arguments: The verb's fields, all of them.
        dry_run: Whether only to say what would happen.
        takes_lease: Whether the stream must not run meanwhile.
        needs_spark: Whether there is a Spark to work with.
        config: The stream, as a driver would be started now.
        document: That configuration as it was read.
        yaml: The stream's YAML.
        launched_uri: The configuration of the stream's last driver.
        savepoints_uri: Folder of the stream's savepoints.
        raw_uri: The table ``raw_events``.
        folder_uri: Folder of the operation.
        state_limits: Sizes of the state at which somebody should look, `sizes.SizeLimits`.
        failures: How often the driver was started again after a failure (``count``), and ``since`` when that
            is counted (ISO 8601); None if nobody has counted.
        asked_by: Who asked, if it may ask again after it has died; else empty.
        operations_uri: Folder of all operations on the stream; empty if it is not known.
        logs_uri: Folder of their logs; likewise.
        other: Another stream that the operation is about, as a driver of it would be started now.
        personal_arguments: Names of arguments that are masked in the result.
        seed_roots: URIs of the folders below which a seed's table may lie.
    """

    operation: str
    verb: str
    arguments: Mapping[str, Any]
    dry_run: bool
    takes_lease: bool
    needs_spark: bool
    config: Config
    document: Mapping[str, Any]
    yaml: str
    launched_uri: str
    savepoints_uri: str
    raw_uri: str
    folder_uri: str
    state_limits: Mapping[str, int]
    failures: Mapping[str, Any] | None = None
    asked_by: str = ""
    operations_uri: str = ""
    logs_uri: str = ""
    other: Config | None = None
    personal_arguments: Sequence[str] = ()
    seed_roots: Sequence[str] = ()

    @property
    def shows_all(self) -> bool:
        """Whether keys and personal values are shown in full."""
        return bool(self.arguments.get("show_keys"))

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """The arguments as people see them."""
        return {
            name: masked_key(value)
            if name in self.personal_arguments and isinstance(value, str) and not self.shows_all
            else value
            for name, value in self.arguments.items()
        }

    @property
    def stamp(self) -> str:
        """When it was asked for, as part of an id."""
        return self.operation.partition("-")[0]


def load_request(uri: str) -> Request:
    """Read the document at ``uri``.

    Raises:
        StateError: It is not there, or of another version.
        ConfigError: The stream's configuration in it is not sound.
    """
    document = storage.read_json(uri)
    if document is None or document.get("version") != VERSION:
        found = "nothing" if document is None else f"version {document.get('version')!r}"
        raise StateError(
            f"{uri}: expected a request of version {VERSION}, found {found}; `stateward state` writes it"
        )
    plain = {name: value for name, value in document.items() if name not in ("version", "config", "other")}
    other = document.get("other")
    return Request(
        **plain,
        config=parse_config(document["config"], uri),
        document=document["config"],
        other=None if other is None else parse_config(other, uri),
    )
