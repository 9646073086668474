"""The error of a value in a YAML file that is not what its field expects."""


class UnexpectedValueError(ValueError):
    """A value is not what was expected.

    Attributes:
        expected: What was, in words that go on after "expected".
    """

    def __init__(self, expected: str) -> None:
        super().__init__(f"expected {expected}")
        self.expected = expected
