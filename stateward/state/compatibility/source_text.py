"""Source code as text: the stateful operators of a native stream's plan, and the text of a function.

Reading the source needs no session and no plan.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

_STATEFUL = frozenset(
    {
        "agg",
        "applyInPandasWithState",
        "count",
        "cube",
        "distinct",
        "dropDuplicates",
        "dropDuplicatesWithinWatermark",
        "drop_duplicates",
        "groupBy",
        "groupby",
        "join",
        "rollup",
        "transformWithState",
        "transformWithStateInPandas",
        "withWatermark",
    }
)


def plan_operators(plan: Callable[..., Any]) -> list[str]:
    """The calls in the plan's module that create or affect state, with their arguments, in order.

    Comments, layout and selections from the results do not count.
    """
    module = inspect.getmodule(plan)
    tree = ast.parse(inspect.getsource(plan if module is None else module))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_operator(node.func)
    ]
    # All calls of a chain start at the same place, so sort by the end.
    calls.sort(key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))
    return [_text(call) for call in calls]


def _is_operator(function: ast.Attribute) -> bool:
    # `DataFrame.count` is an operator, `F.count` an expression.
    is_expression = isinstance(function.value, ast.Name) and function.value.id == "F"
    return function.attr in _STATEFUL and not is_expression


def _text(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    arguments = [ast.unparse(part) for part in (*call.args, *call.keywords)]
    return f"{call.func.attr}({', '.join(arguments)})"


def function_text(function: Callable[..., Any]) -> str:
    """The source of a function without comments, layout and docstring; its name if it has no source.

    The functions that it calls are not included.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return getattr(function, "__qualname__", repr(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
