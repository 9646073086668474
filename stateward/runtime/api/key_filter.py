"""Which keys of a topic are a stream's, where several streams share them. Pure.

Two streams between which keys are divided declare one rule, one of them with `KeyFilter.others`: so every key
is one stream's and none is both's, whatever the rule (docs/state-migrate.md).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class KeyFilter(NamedTuple):
    """A rule that divides keys in two. Its function is pure and module-level.

    Attributes:
        says: Which keys the function names, for people, such as ``large customers``.
        names: Whether a key is one of them.
        rest: Whether the stream takes all keys but those.
    """

    says: str
    names: Callable[[str], bool]
    rest: bool = False

    def others(self) -> "KeyFilter":
        """The same rule for the other side."""
        return self._replace(rest=not self.rest)

    def takes(self, key: str) -> bool:
        """Whether a key is the stream's by this rule."""
        return bool(self.names(key)) != self.rest

    def __str__(self) -> str:
        return f"all but {self.says}" if self.rest else self.says


def takes(filters: Iterable[KeyFilter], key: str) -> bool:
    """Whether a key is a stream's: by each of its rules. Without a rule every key is."""
    return all(one.takes(key) for one in filters)
