"""Try update defences: each setting is one simulation, which is attacked as its server would."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from divulge._util.progress import Track
from divulge._util.random import stream
from divulge.core import Head
from divulge.defences import catalog
from divulge.errors import DataError, DivulgeError, SpecError, did_you_mean
from divulge.studies.harden import optimiser
from divulge.studies.harden.federated_limits import (
    FederationLimits,
    FederationTrial,
    FederationVariant,
)
from divulge.studies.harden.federated_result import (
    FRESH,
    TRIALS,
    FederationSearchFacts,
    HardenedFederation,
    StoredTrial,
    read_trial,
    store_trial,
)
from divulge.studies.harden.log import Draft
from divulge.studies.harden.proposal import UNDEFENDED
from divulge.studies.harden.search import Bench, Study

if TYPE_CHECKING:
    import optuna


@runtime_checkable
class Simulator(Protocol):
    """Simulates and attacks settings of one kind of federation."""

    @property
    def limits(self) -> FederationLimits:
        """What its server may learn."""
        ...

    def run(self, setting: FederationVariant, seed: int) -> FederationTrial:
        """Simulate a setting, and attack it.

        Raises:
            DivulgeError: it cannot be simulated, or no attack on a limited secret can be run.
        """
        ...


class FederationBench(Bench[FederationVariant, FederationSearchFacts, HardenedFederation]):
    """Simulates federations of the clients of the search, or rankers of its queries.

    Args:
        searched: simulates them.
        fresh: simulates one of clients, or queries, that the search never sees.
        families: update defences, by name, the undefended one first.
        epochs: the most local epochs that are tried; None where clients have none.
        budget: how many simulations there are at most, the last one included.
        seed: fixes what is proposed, and each simulation.
    """

    misses, by_chance = 20, 5

    def __init__(
        self,
        searched: Simulator,
        fresh: Simulator,
        families: tuple[str, ...],
        epochs: int | None,
        budget: int,
        seed: int,
    ) -> None:
        super().__init__()
        self._searched, self._fresh = searched, fresh
        self._families, self._epochs, self._budget, self._seed = families, epochs, budget, seed
        self._folder = Path()

    def finish(
        self, head: Head[FederationSearchFacts], folder: Path, track: Track[Any]
    ) -> HardenedFederation:
        """See `Bench.finish`."""
        del head  # it is read again with the trials
        self._folder = folder
        Study(self, track).run()
        chosen = self._searched.limits.choose(
            [draft.looks[0] for draft in self.tried if draft.looks]
        )
        own = int(stream(self._seed, "fresh").integers(2**31))
        last = self._run(self._fresh, chosen.setting, own, FRESH)
        if last.found is None:
            raise DataError(f"{chosen.setting.label} with a fresh half: {last.refused}")
        result = HardenedFederation.load(folder)
        result.report()
        return result

    def firsts(self, study: Study[FederationVariant]) -> Iterator[list[Draft[FederationVariant]]]:
        """Each defence with its defaults, as far as it has some that are searched."""
        for name in self._families[: self._budget - 1]:
            cls = catalog.update_defence_class(name)
            defaults = {field.name: field.default for field in fields(cls)}
            own: dict[str, Any] = {
                setting: defaults[setting]
                for setting, values in cls.search.items()
                if optimiser.holds(values, defaults[setting])
            }
            yield [study.propose(FederationVariant(name, own, self._epochs))]

    def values_of(self, first: FederationVariant) -> Mapping[str, Any]:
        """See `Bench.values_of`."""
        own = {f"{first.defence}.{name}": value for name, value in first.settings.items()}
        epochs = {} if first.epochs is None else {"epochs": first.epochs}
        return {"defence": first.defence, **epochs, **own}

    def propose(self, trial: "optuna.Trial") -> FederationVariant:
        """See `Bench.propose`."""
        name = trial.suggest_categorical("defence", self._families)
        settings = {
            setting: optimiser.suggest(trial, f"{name}.{setting}", values)
            for setting, values in catalog.update_defence_class(name).search.items()
        }
        epochs = None if self._epochs is None else trial.suggest_int("epochs", 1, self._epochs)
        return FederationVariant(name, settings, epochs)

    def seed_of(self, proposed: int, missed: int) -> int:
        """See `Bench.seed_of`."""
        del proposed
        return int(stream(self._seed, "federation", len(self.tried), missed).integers(2**31))

    def admits(
        self, draft: Draft[FederationVariant], group: Sequence[Draft[FederationVariant]]
    ) -> bool:
        """See `Bench.admits`; the last run is one of the budget."""
        del draft
        return len(self.tried) + len(group) < self._budget - 1

    def try_group(self, group: Sequence[Draft[FederationVariant]], track: Track[Any]) -> None:
        """See `Bench.try_group`."""
        for draft in track(group, f"Trial {group[0].number} of {self._budget - 1}"):
            stored = self._run(
                self._searched, draft.setting, self._seed, f"{TRIALS}/{draft.number:03d}.json"
            )
            draft.looks = [] if stored.found is None else [stored.found]

    def lessons(self, draft: Draft[FederationVariant]) -> Iterator[tuple[float, float]]:
        """See `Bench.lessons`."""
        for trial in draft.looks:
            yield trial.accuracy.value, trial.excess(self._searched.limits)

    def _run(
        self, simulator: Simulator, setting: FederationVariant, seed: int, name: str
    ) -> StoredTrial:
        """What a setting comes to, from the folder or, once computed, stored there.

        Raises:
            DivulgeError: it has no defence, and cannot be simulated or attacked.
        """
        there = read_trial(self._folder, name, setting)
        if there is not None:
            return there
        try:
            trial = StoredTrial(setting, simulator.run(setting, seed), "")
        except DivulgeError as error:
            if setting.defence == UNDEFENDED:
                raise
            trial = StoredTrial(setting, None, str(error))
        store_trial(self._folder, name, trial)
        return trial


def choose_families(
    defences: Sequence[str], known: Sequence[str], budget: int, unit: str
) -> tuple[str, ...]:
    """The update defences to try, the undefended one first.

    Args:
        defences: those that are asked for.
        known: those that can be tried.
        budget: how many simulations there are at most, the last one included.
        unit: what is simulated, in the plural.

    Raises:
        SpecError: a defence is not known, or the budget is too small.
    """
    for name in defences:
        if name not in known:
            hint = did_you_mean(name, known)
            raise SpecError(f"expected an update defence that is searched, got {name!r}: {hint}")
    if budget < 2:
        raise SpecError(f"expected a budget of 2 {unit} or more, got {budget}: the last is one")
    return tuple(dict.fromkeys((UNDEFENDED, *defences)))
