"""Match labels with the names of classes: by name first, by position where no name contradicts.

Labels and names come from tables, models, URLs and users, in whatever type each of them has. They
are compared by `class_keys.class_key`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from divulge.data.cells import are_categories, show_label
from divulge.data.class_keys import class_key, class_number, find_places
from divulge.errors import DataError

Names = tuple[Any, ...]

SHOWN = 10
"""Labels and names that a message lists."""

_LISTED = 20
"""Classes that the page lists."""


@dataclass(frozen=True, slots=True)
class ClassMatch:
    """Which class each label is, and what that was taken from."""

    numbers: Mapping[Any, int]
    """The number of the class by label."""
    names: Names
    """What the labels call each class; none where classes are plain numbers."""
    titles: Names
    """What the report calls each class; none where classes are plain numbers."""
    by_position: bool = False
    """Whether class numbers were taken for positions among classes that have names."""
    further: int = 0
    """How many classes come after those of the columns: the user names them, the model does not."""


def match_classes(
    labels: Iterable[Any],
    columns: Sequence[Any],
    class_names: Sequence[Any] = (),
    *,
    numbered: bool = False,
    trained: Collection[Any] | None = None,
    place: Callable[[Any], str] = lambda _: "",
) -> ClassMatch:
    """The class of each label that occurs.

    Args:
        labels: those that occur, each once.
        columns: the names of the classes in the order of the columns with their probabilities;
            none where nobody knows them.
        class_names: the names that the user gave in the order of class numbers: other names for
            the columns in their order, or the same names, perhaps in another order, and perhaps
            with further ones, which the model does not know.
        numbered: whether it is said that numbers of classes are positions of columns.
        trained: where the columns have the very labels that a model was trained on, those of the
            records that it was trained on.
        place: where a label was found, for messages.

    Raises:
        DataError: a label is none of the names, and cannot be a position either.

    Examples:
        >>> match_classes(["dog", "cat"], ["cat", "dog"]).numbers
        {'dog': 1, 'cat': 0}
    """
    distinct = list(labels)
    if twice := [name for name, count in Counter(class_names).items() if count > 1]:
        raise DataError(
            f"expected a name of its own for each class in class_names, got {str(twice[0])!r} "
            "twice: correct them"
        )
    order = find_places(columns, class_names)
    if columns and len(set(order.values())) == len(columns):
        return _match_named_by_user(distinct, columns, class_names, order, place)
    if columns and class_names and len(class_names) != len(columns):
        raise DataError(
            f"expected {len(columns)} class names, one for each of {show(columns)}, got "
            f"{len(class_names)}: name all of them or none"
        )
    titles = _told_names(class_names or columns)
    for names in filter(None, (class_names, columns)):
        places = find_places(distinct, names)
        if len(places) == len(distinct):
            return ClassMatch(places, _told_names(names), titles)
    names = tuple(class_names or columns)
    if not may_be_positions(distinct, names, numbered_by_user=bool(class_names) or numbered):
        raise _unknown_class(
            distinct, names, place, numbered_by_user=bool(class_names), trained=trained
        )
    return ClassMatch(
        {label: class_number(label) or 0 for label in distinct}, titles, titles, bool(titles)
    )


def may_be_positions(
    labels: Sequence[Any], names: Sequence[Any], *, numbered_by_user: bool
) -> bool:
    """Whether labels are positions among these names, and nothing contradicts that.

    Args:
        labels: those that occur.
        names: of the classes in the order of the columns.
        numbered_by_user: whether somebody said that the classes are numbered in this order.
            Otherwise names that are numbers have to be their own positions, and others have to be
            sorted, as everything that numbers texts sorts them.
    """
    numbers = [class_number(label) for label in labels]
    if any(number is None or number >= len(names) for number in numbers):
        return False
    places = find_places(labels, names)
    if any(class_number(label) != at for label, at in places.items()):
        return False
    if numbered_by_user:
        return True
    whole = {
        at: number
        for at, class_name in enumerate(names)
        if (number := class_number(class_name)) is not None
    }
    if whole:
        return all(at == number for at, number in whole.items())
    texts = [str(name) for name in names]
    return texts == sorted(texts)


def describe_classes(match: ClassMatch, source: str = "") -> str:
    """Which label is which class, in a sentence for the page.

    Args:
        match: the labels and the names of classes.
        source: whose order the names have; that of a table's columns unless given.
    """
    names = match.titles if match.by_position else match.names
    listed = ", ".join(f"{name!r} is {number}" for number, name in enumerate(names[:_LISTED]))
    more = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    meaning = "Labels by number of class" + (f", from {source}" if source else "")
    if match.by_position:
        order = source or "the order of the columns"
        meaning = f"Labels are class numbers, taken for positions in {order}"
    return f"{meaning}: {listed}{more}."


def show(names: Iterable[Any]) -> str:
    """The first names of a list, for a message."""
    shown = list(names)
    more = len(shown) - SHOWN
    return ", ".join(map(str, shown[:SHOWN])) + (f" and {more} more" if more > 0 else "")


def name_list(names: Iterable[Any]) -> str:
    """Names as Python and TOML write a list of texts, to be copied out of a message."""
    return "[" + ", ".join('"' + _quoted(str(name)) + '"' for name in names) + "]"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _match_named_by_user(
    labels: list[Any],
    columns: Sequence[Any],
    class_names: Sequence[Any],
    order: Mapping[Any, int],
    place: Callable[[Any], str],
) -> ClassMatch:
    """The user names the columns as they are called, in the order of class numbers."""
    own = [order[name] for name in columns]
    further = sorted(set(range(len(class_names))) - set(own))
    class_of = {at: number for number, at in enumerate([*own, *further])}
    names = _told_names([class_names[at] for at in (*own, *further)])
    places = find_places(labels, class_names)
    by_position = len(places) < len(labels)
    if by_position:
        if not may_be_positions(labels, class_names, numbered_by_user=True):
            raise _unknown_class(labels, tuple(class_names), place, numbered_by_user=True)
        places = {label: class_number(label) or 0 for label in labels}
    numbers = {label: class_of[at] for label, at in places.items()}
    return ClassMatch(numbers, names, names, by_position, len(further))


def _told_names(names: Sequence[Any]) -> Names:
    """The names, or none where they say no more than the numbers of their positions."""
    plain = all(class_key(name) == ("number", at) for at, name in enumerate(names))
    return () if plain else tuple(names)


def _unknown_class(
    labels: Sequence[Any],
    names: Names,
    place: Callable[[Any], str],
    *,
    numbered_by_user: bool,
    trained: Collection[Any] | None = None,
) -> DataError:
    """Why labels are no names and no positions, and what to do."""
    places = find_places(labels, names)
    strange = next((label for label in labels if label not in places), labels[0])
    plain = str(strange).strip().lower()
    near = get_close_matches(plain, [str(n).lower() for n in names], n=1)
    others = [label for label in labels if label not in places] or labels
    shown = show_label(str(strange), near if near == [plain] else others)
    got = f"expected one of {show(names)}{place(strange)}, got {shown}"
    if near and class_key(strange)[0] == "text":
        name = next(str(n) for n in names if str(n).lower() == near[0])
        got += f" (there is {name!r})"
    numbers = [class_number(label) for label in labels]
    if not places and all(number is not None and number < len(names) for number in numbers):
        return DataError(
            f"{got}: class numbers do not say which of these is 0, as they are not in sorted "
            f"order; pass class_names, the same names in the order of class numbers, such as "
            f"class_names = {name_list(names)} if {str(names[0])!r} is class 0"
        )
    if (
        trained is not None
        and not numbered_by_user
        and any(trained_label not in places for trained_label in trained)
    ):
        return DataError(
            f"{got}: label records as they were labelled for the training of the model; or pass "
            "class_names, the classes as the labels call them, in the order of the model's; or "
            "leave records of other classes out"
        )
    run = [] if trained is not None and places else _renumbered(labels, len(names))
    return DataError(
        f"{got}: {_advise(labels, names, places, run, numbered_by_user=numbered_by_user)}"
    )


def _advise(
    labels: Sequence[Any],
    names: Names,
    places: Mapping[Any, int],
    run: Sequence[Any],
    *,
    numbered_by_user: bool,
) -> str:
    if run:
        return (
            f"if the columns are about the classes {show(run)} in this order, pass class_names = "
            f"{name_list(run)}; otherwise correct the labels"
        )
    if not places:
        return (
            "pass class_names, the classes as the labels call them, in the order of these columns; "
            "or correct the labels"
        )
    if numbered_by_user:
        return (
            "correct class_names, the classes as the labels call them, or leave these records out"
        )
    further = _sorted(label for label in labels if label not in places)
    known = ""
    if len(names) + len(further) <= 2 * SHOWN and are_categories(further):
        known = (
            f", or pass class_names = {name_list([*names, *further])}, which gives the further "
            "ones probability 0"
        )
    return (
        f"if the model does not know this class, leave its records out{known}; if it is one of "
        "these by another name, correct the labels, or pass class_names, the classes as the labels "
        "call them, in the order of these columns"
    )


def _renumbered(labels: Sequence[Any], count: int) -> list[Any]:
    """The classes of so many columns, where the labels number them otherwise than their names.

    That is as many whole numbers from 0 or 1 on, if all labels are among them, or all labels, if
    they are as many numbers and a message may name them; else nothing.
    """
    if any(class_key(label)[0] != "number" for label in labels):
        return []
    numbers = [class_number(label) for label in labels]
    for run in (range(count), range(1, count + 1)):
        if all(number in run for number in numbers):
            return list(run)
    if len(labels) != count or not are_categories(labels):
        return []
    return sorted(labels, key=lambda written: class_key(written)[1])


def _sorted(labels: Iterable[Any]) -> list[Any]:
    return sorted(labels, key=lambda label: (class_key(label)[0], str(label)))
