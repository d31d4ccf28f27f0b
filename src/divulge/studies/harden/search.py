"""Try settings one after another, and run the best one with what the search never saw.

First comes every defence as its authors set it. Further settings are proposed by Optuna's
tree-structured Parzen estimator, with accuracy and leakage as its two goals and the limits as a
constraint.

The estimator gets a seed of its own for each proposal, and is shown the results in their order, in
groups whose size does not depend on the machine. So what it proposes follows from the seed and the
results before: a search that was killed goes on as if it had not been.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from divulge._util.progress import Track
from divulge.core import Head
from divulge.finished_runs.run_json import continue_head, store_head
from divulge.studies.harden import optimiser
from divulge.studies.harden.hardened import P, SearchRun
from divulge.studies.harden.log import Draft, S
from divulge.studies.leave_one_out.run import take_folder

if TYPE_CHECKING:
    import optuna

H = TypeVar("H", bound=SearchRun[Any, Any])


class Bench(ABC, Generic[S, P, H]):
    """Tries settings on models, on a federation, or on users of a ranker.

    What is computed is stored in its folder at once, and what is there is not computed again.
    """

    misses: ClassVar[int]
    """After so many proposals in a row that are known or not admitted, a search ends."""
    by_chance: ClassVar[int | None] = None
    """After so many of them, settings are drawn by chance; None for never."""
    together: ClassVar[int] = 1
    """How many settings are proposed at a time, and tried side by side."""

    def __init__(self) -> None:
        self.tried: list[Draft[S]] = []
        """All settings that were tried, those of which nothing was seen among them."""

    @abstractmethod
    def firsts(self, study: "Study[S]") -> Iterator[list[Draft[S]]]:
        """Groups that are tried before anything is proposed, the undefended setting alone first."""

    @abstractmethod
    def values_of(self, first: S) -> Mapping[str, Any]:
        """A setting as values of the optimiser's trial; what it lacks is proposed."""

    @abstractmethod
    def propose(self, trial: "optuna.Trial") -> S:
        """What the optimiser tries next."""

    @abstractmethod
    def seed_of(self, proposed: int, missed: int) -> int:
        """The optimiser's seed for one proposal.

        Args:
            proposed: the number of proposals, this one included.
            missed: the number of proposals in a row that came to nothing.
        """

    @abstractmethod
    def admits(self, draft: Draft[S], group: Sequence[Draft[S]]) -> bool:
        """Whether a setting can be tried beside a group, within the budget."""

    @abstractmethod
    def try_group(self, group: Sequence[Draft[S]], track: Track[Any]) -> None:
        """Try settings, side by side.

        Raises:
            StoreError: what was computed cannot be stored or read.
            DivulgeError: the undefended setting cannot be tried.
        """

    @abstractmethod
    def lessons(self, draft: Draft[S]) -> Iterable[tuple[float, float]]:
        """Each accuracy that a setting came to, and by how much it exceeds the limits there."""

    @abstractmethod
    def finish(self, head: Head[P], folder: Path, track: Track[Any]) -> H:
        """Search unless that is done, run the best setting, and write the report."""


class Study(Generic[S]):
    """A search as it goes on.

    Args:
        bench: tries the settings.
        track: shows progress.

    Raises:
        MissingExtra: Optuna is not installed.
    """

    def __init__(self, bench: Bench[S, Any, Any], track: Track[Any]) -> None:
        self._bench, self._track = bench, track
        self._optimiser, self._proposed = optimiser.new_study(), 0
        self.ended = ""
        """Why the search ended, in a sentence."""

    def run(self) -> None:
        """Try settings until the budget is spent, or hardly anything is left to try."""
        for firsts in self._bench.firsts(self):
            self._try(firsts)
        missed, known = 0, 0
        while missed < self._bench.misses:
            group: list[Draft[S]] = []
            while len(group) < self._bench.together and missed < self._bench.misses:
                draft = self.propose(None, missed)
                again = any(
                    draft.setting == other.setting for other in (*self._bench.tried, *group)
                )
                missed, known = missed + 1, known + again
                if not again and self._bench.admits(draft, group):
                    group.append(draft)
                    missed, known = 0, 0
                else:
                    self.drop(draft)
            self._try(group)
        self.ended = (
            f"The search ended as its last {missed} proposals came to nothing: {known} of them had "
            f"been tried, {missed - known} cost more than was left or could not be trained."
        )

    def propose(self, first: S | None, missed: int = 0) -> Draft[S]:
        """What is given, or what the optimiser proposes."""
        self._proposed += 1
        # where one family leads that has hardly any settings, all that is proposed is known
        by_chance = self._bench.by_chance is not None and missed >= self._bench.by_chance
        seed = self._bench.seed_of(self._proposed, missed)
        given = None if first is None else self._bench.values_of(first)
        trial = optimiser.ask(self._optimiser, seed, given, by_chance=by_chance)
        return Draft(self._bench.propose(trial), trial)

    def drop(self, draft: Draft[S]) -> None:
        """Say that a proposal is not tried."""
        optimiser.end(self._optimiser, draft.trial)

    def _try(self, group: Sequence[Draft[S]]) -> None:
        if not group:
            return
        for draft in group:
            self._bench.tried.append(draft)
            draft.number = len(self._bench.tried)
        self._bench.try_group(group, self._track)
        for draft in group:
            for accuracy, excess in self._bench.lessons(draft):
                # to leak less than allowed is worth nothing here
                optimiser.show(self._optimiser, draft.trial, accuracy, max(excess, 0.0), excess)
            optimiser.end(self._optimiser, draft.trial)


def run_search(
    bench: Bench[Any, P, H], head: Head[P], path: Path, track: Track[Any], *, resume: bool
) -> H:
    """Search, and run the best setting; what the folder holds already is not computed again.

    Args:
        bench: what settings are tried on.
        head: what is asked for.
        path: the run folder.
        track: shows progress.
        resume: continue the run folder.

    Raises:
        StoreError: the folder is in use, or belongs to another search.
        DivulgeError: the undefended or the best setting cannot be tried.
    """
    with take_folder(path, resume=resume):
        head = continue_head(path, head, "data, limits, search and seed")
        store_head(path, head)
        search = bench.finish(head, path, track)
        return replace(search, head=store_head(path, head, search.parts_of_folder()))
