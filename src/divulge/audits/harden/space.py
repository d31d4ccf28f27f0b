"""What a search tries: a defence, its settings, and how long a model is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from divulge._util.json import JSON
from divulge.audits.compare.defences import Variant
from divulge.audits.harden import optimiser
from divulge.audits.harden.config import UNDEFENDED
from divulge.core import Range, SearchSpace, Trainer
from divulge.defences import catalog
from divulge.training.recipe import Recipe
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.trainers import trainer_identity

if TYPE_CHECKING:
    import optuna

WEIGHT_DECAY = Range(1e-5, 0.1, log=True)
SHORTEST = 8
"""The fewest epochs that are tried are those of the recipe over this."""

_AS_GIVEN = "as given"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One setting of everything that is searched."""

    defence: str
    settings: Mapping[str, JSON]
    """Of the defence, and of the recipe where the defence asks for some."""
    epochs: int
    weight_decay: float | None
    """None is that of the recipe."""
    answers: str
    """The defence of answers; ``none`` without one."""

    @property
    def label(self) -> str:
        """What tells it from others, for people."""
        told = [f"{name}={value}" for name, value in self.settings.items()]
        told.append(f"epochs={self.epochs}")
        told += [] if self.weight_decay is None else [f"weight_decay={self.weight_decay:g}"]
        behind = "" if self.answers == UNDEFENDED else f", answers by {self.answers}"
        name = "undefended" if self.defence == UNDEFENDED else self.defence
        return f"{name} ({', '.join(told)}){behind}"

    def as_variant(self, recipe: Recipe, models: int) -> Variant:
        """The way to train and to answer.

        Args:
            recipe: how an undefended model is trained.
            models: how many to train.

        Raises:
            SpecError: the defence refuses the recipe.
        """
        trainer = self._trainer(recipe)
        answers = None if self.answers == UNDEFENDED else catalog.answer_defence(self.answers)
        plan = ShadowPlan(trainer, models, fingerprint=trainer_identity(trainer), answers=answers)
        return Variant(self.label, plan)

    def _trainer(self, recipe: Recipe) -> Trainer:
        from divulge.training.fleet import Fleet

        cls = Fleet if self.defence == UNDEFENDED else catalog.trained_defence_class(self.defence)
        own = {field.name for field in fields(cls)} - {"recipe"}
        changed: dict[str, Any] = {k: v for k, v in self.settings.items() if k not in own}
        changed["epochs"] = self.epochs
        if self.weight_decay is not None:
            changed["weight_decay"] = self.weight_decay
        recipe = replace(recipe, **changed)
        if self.defence == UNDEFENDED:
            return Fleet(recipe)
        settings = {name: value for name, value in self.settings.items() if name in own}
        return catalog.trained_defence(self.defence, recipe, **settings)


def count_trainings(trainer: Any) -> int:
    """How many networks a trainer trains for one model."""
    return getattr(trainer, "trainings", 1)


def propose(
    trial: "optuna.Trial", families: Sequence[str], answers: Sequence[str], epochs: int
) -> Proposal:
    """What the optimiser tries next.

    Args:
        trial: of the optimiser.
        families: the defences, by name.
        answers: the defences of answers, by name.
        epochs: those of the recipe, the most that are tried.
    """
    defence = trial.suggest_categorical("defence", families)
    settings = {
        name: optimiser.suggest(trial, f"{defence}.{name}", values)
        for name, values in _space_of(defence).items()
    }
    decay = trial.suggest_categorical("weight_decay", (_AS_GIVEN, "searched"))
    return Proposal(
        defence=defence,
        settings=settings,
        epochs=trial.suggest_int("epochs", max(1, epochs // SHORTEST), epochs, log=True),
        weight_decay=None
        if decay == _AS_GIVEN
        else optimiser.suggest(trial, "weight_decay.value", WEIGHT_DECAY),
        answers=trial.suggest_categorical("answers", (UNDEFENDED, *answers)),
    )


def first_proposals(
    families: Sequence[str], answers: Sequence[str], epochs: int
) -> list[dict[str, Any]]:
    """What is tried first, as parameters of the optimiser: each defence as its authors set it.

    Then each defence of answers before the undefended model.
    """
    usual = {"epochs": epochs, "weight_decay": _AS_GIVEN, "answers": UNDEFENDED}
    return [
        *({"defence": name, **usual, **_defaults_of(name)} for name in families),
        *({"defence": UNDEFENDED, **usual, "answers": name} for name in answers),
    ]


def default_proposals(
    families: Sequence[str], answers: Sequence[str], epochs: int
) -> list[Proposal]:
    """Each defence as its authors set it, then each defence of answers: what is tried first."""
    trained = [(name, UNDEFENDED) for name in families]
    return [
        Proposal(name, _usual_settings(name), epochs, None, behind)
        for name, behind in (*trained, *((UNDEFENDED, answer) for answer in answers))
    ]


def _space_of(defence: str) -> SearchSpace:
    if defence == UNDEFENDED:
        return {}
    found: SearchSpace = catalog.trained_defence_class(defence).search
    return found


def _defaults_of(defence: str) -> dict[str, Any]:
    """The defaults of the settings that are searched, as far as the search could find them."""
    if defence == UNDEFENDED:
        return {}
    cls = catalog.trained_defence_class(defence)
    defaults = {field.name: field.default for field in fields(cls)}
    return {
        f"{defence}.{name}": defaults[name]
        for name, values in cls.search.items()
        if name in defaults and optimiser.holds(values, defaults[name])
    }


def _usual_settings(defence: str) -> dict[str, Any]:
    """The defaults; of settings that the search never leaves at them the first value it tries."""
    defaults = _defaults_of(defence)
    return {
        name: defaults.get(f"{defence}.{name}", values[0])
        for name, values in _space_of(defence).items()
    }
