"""The error of a value in a YAML file that is not what its field expects."""


class UnexpectedValueError(ValueError):
    """A value is not what was expected.

    Attributes:
        expected: What was expected; the text continues after the word "expected".
    """

    def __init__(self, expected: str) -> None:
        super().__init__(f"expected {expected}")
        self.expected = expected
