"""The request of an operation: a JSON document that the control plane writes and the job reads."""

from __future__ import annotations

from typing import Any

from stateward.contract import storage
from stateward.contract.reading import InvalidDocumentError, as_json
from stateward.contract.requests import OperationRequest, read_request
from stateward.runtime.api.config import Config
from stateward.runtime.api.key_logic import masked_key
from stateward.state.errors import StateError


class Request(OperationRequest[Config], frozen=True):
    """One operation."""

    @property
    def document(self) -> dict[str, Any]:
        """The stream's configuration as a document."""
        return as_json(self.config)

    @property
    def shows_all(self) -> bool:
        """Whether keys and personal values are shown in full."""
        return bool(self.arguments.get("show_keys"))

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """The arguments, with personal ones masked."""
        return {
            name: "erased"
            if name in self.secrets
            else masked_key(value)
            if name in self.personal_arguments and isinstance(value, str) and not self.shows_all
            else value
            for name, value in self.arguments.items()
        }

    def secret(self, argument: str) -> str | None:
        """Return the value to which an argument refers; None once it is erased."""
        document = storage.read_json(self._secret_uri(argument))
        return None if document is None else str(document["value"])

    def erase_secrets(self) -> None:
        """Remove the values to which arguments refer."""
        for argument in self.secrets:
            storage.delete(self._secret_uri(argument))

    def _secret_uri(self, argument: str) -> str:
        return f"{self.folder_uri}/{self.arguments[argument]}"

    @property
    def stamp(self) -> str:
        """The time of the request, as it is part of ids."""
        return self.operation.partition("-")[0]


def load_request(uri: str) -> Request:
    """Read the document at ``uri``.

    Raises:
        StateError: The document is missing, has another version, or lacks a field.
    """
    try:
        return read_request(Request, storage.read_json(uri), uri, "`stateward state` writes a request")
    except InvalidDocumentError as error:
        raise StateError(str(error)) from None
