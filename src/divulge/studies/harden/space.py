"""What a search tries: defences, alone or one over another, their settings, and the epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from divulge._util.json import JSON
from divulge.core import Range, Records, SearchSpace, Trainer
from divulge.defences import catalog
from divulge.studies.compare.defences import Variant
from divulge.studies.harden import optimiser
from divulge.studies.harden.config import UNDEFENDED
from divulge.training.recipe import Recipe
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workers import StagedTrainer
from divulge.training.trainers import trainer_identity

if TYPE_CHECKING:
    import optuna

WEIGHT_DECAY = Range(3e-4, 0.1, log=True)
SHORTEST = 16
"""The fewest epochs that are looked at are those of the recipe over this."""

_AS_GIVEN = "as given"
_OVER = ("early-stopping", "complementary-distillation", "selena")
"""Defences that can be put over another one: they change which epoch or which labels count."""
_BENEATH = (
    *("regularise", "label-smoothing", "relaxloss", "hamp"),
    *("augmentation", "image-augmentation"),
)
"""Defences that change what a step learns, and so can stand beneath one of those."""


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
    beneath: str = UNDEFENDED
    """The defence whose recipe this one changes; ``none`` where that is the undefended one."""
    beneath_settings: Mapping[str, JSON] = field(default_factory=dict)
    stop_after: int | None = None
    """After how many of the epochs training ends; all are run where None."""

    @property
    def label(self) -> str:
        """What tells it from others, for people."""
        told = _name_settings(self.settings)
        stop = self.stop_after
        told.append(f"epochs={self.epochs}" + ("" if stop is None else f", stop_after={stop}"))
        told += [] if self.weight_decay is None else [f"weight_decay={self.weight_decay:g}"]
        behind = "" if self.answers == UNDEFENDED else f", answers by {self.answers}"
        name = "undefended" if self.defence == UNDEFENDED else self.defence
        over = ""
        if self.beneath != UNDEFENDED:
            over = f" over {self.beneath} ({', '.join(_name_settings(self.beneath_settings))})"
        return f"{name} ({', '.join(told)}){over}{behind}"

    def as_variant(self, recipe: Recipe, models: int) -> Variant:
        """The way to train and to answer.

        Args:
            recipe: how an undefended model is trained.
            models: how many to train.

        Raises:
            SpecError: the defence refuses the recipe.
        """
        trainer = self.as_trainer(recipe)
        answers = None if self.answers == UNDEFENDED else catalog.answer_defence(self.answers)
        plan = ShadowPlan(trainer, models, fingerprint=trainer_identity(trainer), answers=answers)
        return Variant(self.label, plan)

    def as_trainer(self, recipe: Recipe) -> Trainer:
        """The way to train.

        Args:
            recipe: how an undefended model is trained.

        Raises:
            SpecError: the defence refuses the recipe.
        """
        from divulge.training.fleet import Fleet

        cls = Fleet if self.defence == UNDEFENDED else catalog.trained_defence_class(self.defence)
        own = {field.name for field in fields(cls)} - {"recipe"}
        changed: dict[str, Any] = {k: v for k, v in self.settings.items() if k not in own}
        changed |= {"epochs": self.epochs, "stop_after": self.stop_after}
        if self.weight_decay is not None:
            changed["weight_decay"] = self.weight_decay
        recipe = replace(recipe, **changed)
        if self.defence == UNDEFENDED:
            return Fleet(recipe)
        if self.beneath != UNDEFENDED:
            recipe = self._beneath(recipe).defended_recipe()
        settings = {name: value for name, value in self.settings.items() if name in own}
        return catalog.trained_defence(self.defence, recipe, **settings)

    def _beneath(self, recipe: Recipe) -> Any:
        return catalog.trained_defence(self.beneath, recipe, **self.beneath_settings)

    def check_records(self, recipe: Recipe, records: Records) -> None:
        """Refuse records that a defence cannot train on.

        Args:
            recipe: how an undefended model is trained.
            records: of the search.

        Raises:
            SpecError: they are of the wrong kind, or the defence refuses the recipe.
        """
        used: list[Any] = [self.as_trainer(recipe)]
        used += [] if self.beneath == UNDEFENDED else [self._beneath(recipe)]
        for one in used:
            if hasattr(one, "check_records"):
                one.check_records(records)

    def work(self, recipe: Recipe) -> float:
        """How much work one model is, in trainings of an undefended one for all its epochs.

        A network that learns a half of the model's records, or for half of the epochs, counts a
        half.

        Args:
            recipe: how an undefended model is trained.

        Raises:
            SpecError: the defence refuses the recipe.
        """
        before = getattr(self.as_trainer(recipe), "preparation", 0.0)
        own = self.epochs if self.stop_after is None else self.stop_after
        return (float(before) * self.epochs + own) / recipe.epochs


def _name_settings(settings: Mapping[str, JSON]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def is_staged(trainer: Trainer) -> bool:
    """Whether one training shows what the model would be, had it ended earlier."""
    return isinstance(trainer, StagedTrainer) and getattr(trainer, "staged", True)


def stages(epochs: int) -> tuple[int, ...]:
    """The epochs after which a model is looked at: half as many in every third step.

    Examples:
        >>> stages(40)
        (2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40)
        >>> stages(1)
        (1,)
    """
    steps = range(3 * (SHORTEST.bit_length() - 1) + 1)
    return tuple(sorted({max(1, round(epochs * 2 ** (-step / 3))) for step in steps}))


def propose(trial: "optuna.Trial", families: Sequence[str], epochs: Sequence[int]) -> Proposal:
    """What the optimiser tries next.

    Args:
        trial: of the optimiser.
        families: the defences, by name.
        epochs: numbers of epochs for a defence that is not looked at while it trains, or that
            trains teachers first; the last one is that of all others.
    """
    defence = trial.suggest_categorical("defence", families)
    settings = _suggest_settings(trial, defence, defence)
    beneath, beneath_settings = UNDEFENDED, {}
    bases = [name for name in _BENEATH if name in families]
    if defence in _OVER and bases:
        beneath = trial.suggest_categorical(f"{defence}.beneath", (UNDEFENDED, *bases))
        beneath_settings = _suggest_settings(trial, beneath, f"beneath.{beneath}")
    decay = trial.suggest_categorical("weight_decay", (_AS_GIVEN, "searched"))
    return Proposal(
        defence=defence,
        settings=settings,
        epochs=trial.suggest_categorical(f"{defence}.epochs", tuple(epochs))
        if defence in SEVERAL_LENGTHS
        else epochs[-1],
        weight_decay=None
        if decay == _AS_GIVEN
        else optimiser.suggest(trial, "weight_decay.value", WEIGHT_DECAY),
        answers=UNDEFENDED,
        beneath=beneath,
        beneath_settings=beneath_settings,
    )


SEVERAL_LENGTHS = ("complementary-distillation", "selena", "dap", "dp-sgd")
"""Defences whose whole training may be shorter than the recipe's: looks do not show that."""


def _suggest_settings(trial: "optuna.Trial", defence: str, prefix: str) -> dict[str, JSON]:
    return {
        name: optimiser.suggest(trial, f"{prefix}.{name}", values)
        for name, values in _space_of(defence).items()
    }


def first_proposal(defence: str, epochs: int) -> Proposal:
    """A defence as its authors set it; settings without a default have a middle value.

    Args:
        defence: its name.
        epochs: for how many it is trained.
    """
    settings = {name: _usual(defence, name, values) for name, values in _space_of(defence).items()}
    return Proposal(defence, settings, epochs, None, UNDEFENDED)


def values_of(first: Proposal) -> dict[str, Any]:
    """A first proposal as values of the optimiser's trial."""
    found: dict[str, Any] = {"defence": first.defence, "weight_decay": _AS_GIVEN}
    found |= {f"{first.defence}.{name}": value for name, value in first.settings.items()}
    if first.defence in SEVERAL_LENGTHS:
        found[f"{first.defence}.epochs"] = first.epochs
    if first.defence in _OVER:
        found[f"{first.defence}.beneath"] = UNDEFENDED
    return found


def _usual(defence: str, name: str, values: Range | tuple[Any, ...]) -> Any:
    """The default of a setting, if the search may come to it; else a value in the middle."""
    cls = catalog.trained_defence_class(defence)
    defaults = {field.name: field.default for field in fields(cls)}
    if name in defaults and optimiser.holds(values, defaults[name]):
        return defaults[name]
    if isinstance(values, Range):
        low, high = values.low, values.high
        return float(f"{(low * high) ** 0.5 if values.log else (low + high) / 2:.3g}")
    return values[0]


def _space_of(defence: str) -> SearchSpace:
    if defence == UNDEFENDED:
        return {}
    found: SearchSpace = catalog.trained_defence_class(defence).search
    return found
