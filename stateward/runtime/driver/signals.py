"""SIGTERM and SIGINT request a drain, in both processes of a driver.

The process to signal is the JVM of ``spark-submit``. By default its shutdown hooks would stop Spark in the
middle of a batch, so it gets a handler that calls back into Python.
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

    def __init__(self, on_signal: Callable[[str], None]) -> None:
        self._on_signal = on_signal

    def handle(self, received: Any) -> None:
        """Called by the JVM in a thread of its own."""
        self._on_signal(f"SIG{received.getName()}")

    class Java:
        """Read by py4j."""

        implements = ("sun.misc.SignalHandler",)


def handle_in_python(on_signal: Callable[[str], None]) -> None:
    """Call ``on_signal`` with the name of a signal that this process receives."""
    for name in _NAMES:
        signal.signal(getattr(signal, f"SIG{name}"), lambda number, _: on_signal(signal.Signals(number).name))


def handle_in_jvm(spark: SparkSession, on_signal: Callable[[str], None]) -> None:
    """Call ``on_signal`` with the name of a signal that the JVM receives."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    assert gateway is not None  # a classic session has one
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm: Any = gateway.jvm
    handler = _JvmHandler(on_signal)
    for name in _NAMES:
        jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal(name), handler)
