"""Scores of several attacks, of which those that are looked at are in memory."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import final

from divulge._util import showable
from divulge.core import Entry, Status
from divulge.errors import StoreError
from divulge.metrics.membership import Score


@final
class LazyScores(Mapping[str, Score]):
    """By label of an attack its scores, read whenever they are asked for.

    Args:
        labels: of the attacks.
        read: gives the scores of one.
    """

    def __init__(self, labels: Collection[str], read: Callable[[str], Score]) -> None:
        self._labels, self._read = labels, read

    def __getitem__(self, label: str) -> Score:
        if label not in self._labels:
            raise KeyError(label)
        return self._read(label)

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)


def read_scores(entries: Iterable[Entry]) -> LazyScores:
    """The scores of each attack that is done, by its label.

    Raises:
        StoreError: where scores are asked for that are gone.
    """
    done = {
        showable.make_showable(entry.finding.label): entry
        for entry in entries
        if entry.finding.status is Status.DONE
    }
    return LazyScores(done, lambda label: _score(done[label]))


def _score(entry: Entry) -> Score:
    if entry.score is None:
        raise StoreError(
            f"expected the scores of {entry.finding.label}, which is done, got none: "
            "the run is damaged; run the audit again"
        )
    return entry.score
