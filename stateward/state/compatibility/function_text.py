"""A function as text, by which two releases of it can be compared: without comments, layout and docstring."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def function_text(function: Callable[..., Any]) -> str:
    """The text of a function; of one that has none, such as a built-in, its name.

    What the function calls is not part of it.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return getattr(function, "__qualname__", repr(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
