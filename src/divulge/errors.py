"""These classes are all the errors that divulge raises on purpose.

    DivulgeError
    ├── SpecError        a setting (audit.toml, an argument) cannot be understood
    ├── DataError        records, labels, a membership list or updates cannot be used
    ├── TargetError      a model cannot be loaded, or its answers are not what was promised
    │   └── BudgetSpent  the next query would exceed the query budget
    ├── NotApplicable    an attack cannot run on this view; says what is missing
    ├── StoreError       a run folder or a transcript cannot be written or read
    └── MissingExtra     an optional dependency is not installed; names the extra

Every message says what was expected, what came, and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, or all of them.

    Examples:
        >>> did_you_mean("treshold", ["threshold", "gap"])
        "did you mean 'threshold'?"
        >>> did_you_mean("xyz", ["threshold", "gap"])
        'known: gap, threshold'
    """
    names = sorted(known)
    nearest = get_close_matches(word, names, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(names)}"


class DivulgeError(Exception):
    """Base class: catch this to catch everything divulge raises on purpose."""


class SpecError(DivulgeError):
    """A setting cannot be understood."""


class DataError(DivulgeError):
    """Records, labels, a membership list or updates cannot be used."""


class TargetError(DivulgeError):
    """A model cannot be loaded, or its answers are not what was promised."""


class BudgetSpent(TargetError):
    """The next query would exceed the query budget."""


class NotApplicable(DivulgeError):
    """An attack cannot run on this view."""


class StoreError(DivulgeError):
    """A run folder or a transcript cannot be written or read."""


DISTRIBUTIONS = ("papers", "fast")
"""Folders of a checkout that are installed by themselves, and are no extra of divulge."""


class MissingExtra(DivulgeError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self._made_of = (package, extra)
        if ">" in extra:
            how = f"`pip install '{extra}'`"
        else:
            what = f". ./{extra}" if extra in DISTRIBUTIONS else f"'.[{extra}]'"
            how = f"`pip install {what}` in a checkout of divulge"
        super().__init__(f"expected the package {package!r} to be installed, it is not: run {how}")

    def __reduce__(self) -> tuple[type["MissingExtra"], tuple[str, str]]:
        """Let it come back from another process, which makes it anew of what it was made of."""
        return type(self), self._made_of
