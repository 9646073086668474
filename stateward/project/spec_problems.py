"""What is wrong with a YAML file, said so that a person can act on it."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stateward.project.unexpected_value import UnexpectedValueError

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one file. `line` counts from 1, 0 when it is not known."""

    file: str
    line: int
    field: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.field}: expected {self.expected}, found {self.found}. {self.remedy}"

    @property
    def stream(self) -> str:
        """The stream that the file would have been about: the stem of its name."""
        return Path(self.file).stem


@dataclass(frozen=True)
class YamlDocument:
    """A parsed file, and the line on which each of its fields stands."""

    file: str
    data: object
    lines: dict[Location, int]

    def line_of(self, location: Location) -> int:
        """Return the line of a field, or of the nearest parent that the file has."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)


def read_yaml(file: Path) -> YamlDocument | Problem:
    """Read a YAML file without ever raising: what fails is returned as a `Problem`."""
    try:
        content = file.read_bytes()
    except OSError as error:
        return _unreadable(file, error)
    return parse_yaml(content, file)


def _unreadable(file: Path, error: Exception) -> Problem:
    remedy = "Create the file, or make it readable UTF-8 text."
    return Problem(str(file), 0, "(file)", "a readable file in UTF-8", str(error), remedy)


def parse_yaml(content: bytes, file: Path) -> YamlDocument | Problem:
    """Parse what was read of a YAML file without ever raising: what is wrong is returned as a `Problem`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return _unreadable(file, error)
    lines: dict[Location, int] = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        duplicate = _collect_lines(node, (), lines)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        found = getattr(error, "problem", None) or str(error)
        remedy = "Correct the syntax; a tab, a missing colon or an open quote is the usual cause."
        return Problem(str(file), line, "(file)", "YAML", found, remedy)
    if duplicate:
        field, line = duplicate
        remedy = "Remove one of the two."
        return Problem(str(file), line, field, "each field once", "it a second time", remedy)
    return YamlDocument(str(file), data, lines)


def _collect_lines(
    node: yaml.Node | None, at: Location, lines: dict[Location, int]
) -> tuple[str, int] | None:
    """Fill `lines`, and return the first field that stands twice: YAML itself would keep the last."""
    duplicate = None
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*at, str(key.value))
            if here in lines:
                return field_path(here), key.start_mark.line + 1
            lines[here] = key.start_mark.line + 1
            duplicate = duplicate or _collect_lines(value, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*at, index)] = value.start_mark.line + 1
            duplicate = duplicate or _collect_lines(value, (*at, index), lines)
    return duplicate


def field_path(location: Location) -> str:
    """Write a field's place as `source.tick.interval` or `tables[0]`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".") or "(file)"


def problems_of(
    error: ValidationError,
    document: YamlDocument,
    model: type[BaseModel],
    parts: Mapping[str, type[BaseModel]],
) -> list[Problem]:
    """Translate pydantic's errors, one for each field; a field that is misspelled is not missing as well.

    Args:
        error: What pydantic found.
        document: The file.
        model: What it was checked against.
        parts: The models of those fields whose type depends on the file.
    """
    problems: dict[str, Problem] = {}
    details = error.errors()
    meant = {_meant(detail, model, parts) for detail in details if detail["type"] == "extra_forbidden"}
    for detail in details:
        if detail["type"] != "missing" or detail["loc"] not in meant:
            problem = _problem(detail, document, model, parts)
            problems.setdefault(problem.field, problem)
    return list(problems.values())


def _meant(
    detail: ErrorDetails, model: type[BaseModel], parts: Mapping[str, type[BaseModel]]
) -> Location | None:
    """The field that an unknown one resembles; None if there is none."""
    *parents, name = detail["loc"]
    near = difflib.get_close_matches(str(name), _fields_at(model, tuple(parents), parts), n=1)
    return (*parents, near[0]) if near else None


def _problem(
    detail: ErrorDetails, document: YamlDocument, model: type[BaseModel], parts: Mapping[str, type[BaseModel]]
) -> Problem:
    location, value = tuple(detail["loc"]), detail["input"]
    expected = _expected(detail)
    own = _unexpected(detail)
    if own is not None and own.field:
        location, value = own.field, own.found
    if location[:1] == ("logic",) and len(location) > 2:
        location = location[:2]  # what follows names a member of the union, which no one wrote
        expected = "a duration, a number, text, true or false"
    field = field_path(location)
    found = _found(value)
    remedy = f"Set `{field}` to {expected}."
    if detail["type"] == "missing":
        expected, found = "this field", "nothing"
        remedy = f"Add `{location[-1]}` under `{field_path(location[:-1])}`."
        if len(location) == 1:
            remedy = f"Add `{field}` at the top level of the file."
    elif detail["type"] == "extra_forbidden":
        known, meant = _fields_at(model, location[:-1], parts), _meant(detail, model, parts)
        expected, found = f"one of {', '.join(known)}", "an unknown field"
        remedy = f"Rename it to `{meant[-1]}`." if meant else "Remove it."
    elif len(location) == 0 or own is not None:
        remedy = "Change the value; include/streams/stream.schema.json lists every field."
    return Problem(document.file, document.line_of(location), field, expected, found, remedy)


def _expected(detail: ErrorDetails) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    simple = {
        "missing": "this field",
        "int_type": "a whole number",
        "float_type": "a number",
        "string_type": "text",
        "bool_type": "true or false",
        "dict_type": "a mapping of fields",
        "model_type": "a mapping of fields",
        "model_attributes_type": "a mapping of fields",
        "list_type": "a list",
        "too_short": "at least one entry",
        "string_too_short": "some text",
        "greater_than": f"a number above {context.get('gt')}",
        "greater_than_equal": f"a number of at least {context.get('ge')}",
        "less_than_equal": f"a number of at most {context.get('le')}",
        "literal_error": f"one of {context.get('expected')}",
        "string_pattern_mismatch": f"text of the form {context.get('pattern')}",
    }
    if detail["type"] in simple:
        return simple[detail["type"]]
    unexpected = _unexpected(detail)
    return detail["msg"] if unexpected is None else unexpected.expected


def _unexpected(detail: ErrorDetails) -> UnexpectedValueError | None:
    """Return the error of a validator of our own."""
    error = detail.get("ctx", {}).get("error")
    return error if isinstance(error, UnexpectedValueError) else None


def _found(value: object) -> str:
    if value is None:
        return "nothing (null)"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else f"{value[:77]}...")
    return f"{str(value)[:80]} ({type(value).__name__})"


def _fields_at(model: type[BaseModel], location: Location, parts: Mapping[str, type[BaseModel]]) -> list[str]:
    at: Any = model
    for part in location:
        if part in parts:
            at = parts[str(part)]
        elif get_origin(at) is dict:  # what follows is a name that the file gives
            at = get_args(at)[-1]
        else:
            at = _section(at.model_fields[str(part)].annotation)
    return [field.alias or name for name, field in at.model_fields.items()]


def _section(annotation: Any) -> Any:
    """The model or mapping that a field holds, be it optional."""
    candidates = (annotation, *get_args(annotation))
    return next(
        c for c in candidates if get_origin(c) is dict or (isinstance(c, type) and issubclass(c, BaseModel))
    )
