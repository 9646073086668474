"""The error of every state operation."""


class StateError(RuntimeError):
    """The operation cannot be done, and nothing was changed by it unless the text says so.

    The text names the stream, what was expected, what was found, and what to do.
    """
