"""The stateful operators of a native stream's plan, read from its text: no session, no plan."""

from __future__ import annotations

import ast
import inspect
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
    """The calls in the plan's module that make or shape state, with their arguments, in their order.

    Comments, layout and what is only selected of the results do not count.
    """
    module = inspect.getmodule(plan)
    tree = ast.parse(inspect.getsource(plan if module is None else module))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_operator(node.func)
    ]
    # By where a call ends: of a chain each call begins at the same place.
    calls.sort(key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))
    return [_text(call) for call in calls]


def _is_operator(function: ast.Attribute) -> bool:
    # `count` of frames is an operator, `F.count` a part of one.
    is_expression = isinstance(function.value, ast.Name) and function.value.id == "F"
    return function.attr in _STATEFUL and not is_expression


def _text(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    arguments = [ast.unparse(part) for part in (*call.args, *call.keywords)]
    return f"{call.func.attr}({', '.join(arguments)})"
