"""The error of every state operation."""


class StateError(RuntimeError):
    """The operation cannot be done; it changed nothing unless the message says so.

    The message names the stream, what was expected, what was found, and what to do.
    """
