"""What a verb of state operations takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "number", "flag", "stream"]
Value = str | int | bool | None

_TYPES: dict[Kind, type] = {"text": str, "number": int, "flag": bool, "stream": str}


class VerbError(ValueError):
    """A verb that does not exist, or an argument it cannot take."""


@dataclass(frozen=True)
class Field:
    """What a verb takes.

    Attributes:
        name: As in the request; with hyphens on the command line.
        kind: What it is; ``stream`` is the name of another stream.
        help: What it means, for a person.
        default: The value if none is given; a field whose default is None may stay empty.
        minimum: The least number allowed.
        is_required: Whether a value has to be given.
        is_personal: Whether it may be personal data, and is masked in the result.
        is_secret: Whether the request refers to it only, and it is erased in the end, also in Airflow.
    """

    name: str
    kind: Kind
    help: str
    default: Value = None
    minimum: int | None = None
    is_required: bool = False
    is_personal: bool = False
    is_secret: bool = False

    @property
    def type(self) -> type:
        """The type of its value."""
        return _TYPES[self.kind]

    def check(self, verb: str, given: Any) -> Value:
        """Return a value that was given, or the default.

        Args:
            verb: The name of the verb, for errors.
            given: The value; None or empty if none was given.

        Raises:
            VerbError: It is missing, or of another type.
        """
        if given is None or given == "":
            if self.is_required:
                raise VerbError(f"{verb}: {self.name}: expected {self.help}, found nothing")
            return self.default
        is_right = isinstance(given, self.type) and (self.kind == "flag" or not isinstance(given, bool))
        if not is_right or (self.minimum is not None and given < self.minimum):
            least = "" if self.minimum is None else f" of at least {self.minimum}"
            raise VerbError(f"{verb}: {self.name}: expected a {self.kind}{least}, found {given!r}")
        value: Value = given
        return value


def field_parameter(verb: str, field: str) -> str:
    """Name the parameter of a DAG's form for a verb's field."""
    return f"{verb}_{field}"
