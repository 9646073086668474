"""The error of a value in a YAML file that is not what its field expects."""


class UnexpectedValueError(ValueError):
    """A value is not what was expected.

    Attributes:
        expected: What was expected; the text continues after the word "expected".
        field: The place of the field to change, where a check is about several.
        found: Its value.
    """

    def __init__(self, expected: str, *, field: tuple[str, ...] = (), found: object = None) -> None:
        super().__init__(f"expected {expected}")
        self.expected = expected
        self.field = field
        self.found = found
