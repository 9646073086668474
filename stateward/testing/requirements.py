"""What the tests of a stream need beside the library: the extras `dev` and, for the processor, `spark`."""

from __future__ import annotations

import importlib

_EXTRAS = {"hypothesis": "dev", "pytest": "dev", "pyspark": "spark", "pandas": "spark"}


def require(*modules: str) -> None:
    """Import modules, so that what follows can.

    Raises:
        ModuleNotFoundError: One is not installed; the text says which extra has it.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            extra = _EXTRAS[module]
            raise ModuleNotFoundError(
                f"stateward.testing: expected the module {module}, found none. Install the extra {extra}:"
                f" pip install 'stateward[{extra}]' (docs/testing.md).",
                name=module,
            ) from error
