"""SIGTERM and SIGINT ask a driver to drain, whichever of its two processes they reach.

The process to signal is the JVM of ``spark-submit``. Left alone it would answer with its shutdown hooks,
which tear Spark down in the middle of a batch; so it is given a handler that calls back into Python.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMES = ("TERM", "INT")


class _JvmHandler:
    """Implements ``sun.misc.SignalHandler`` through py4j."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self._ask = ask

    def handle(self, received: Any) -> None:
        """Called by the JVM in a thread of its own."""
        self._ask(f"SIG{received.getName()}")

    class Java:
        """Read by py4j."""

        implements = ("sun.misc.SignalHandler",)


def handle_in_python(ask: Callable[[str], None]) -> None:
    """Call ``ask`` with the signal's name when this process is told to end."""
    for name in _NAMES:
        signal.signal(getattr(signal, f"SIG{name}"), lambda number, _: ask(signal.Signals(number).name))


def handle_in_jvm(spark: SparkSession, ask: Callable[[str], None]) -> None:
    """Call ``ask`` with the signal's name when the JVM is told to end."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    assert gateway is not None  # a classic session has one
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm: Any = gateway.jvm
    handler = _JvmHandler(ask)
    for name in _NAMES:
        jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal(name), handler)
