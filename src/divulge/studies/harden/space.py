"""What a search tries: defences, alone or one over another, their settings, and the epochs."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from divulge._util.json import JSON
from divulge.core import Range, SearchSpace, Trainer
from divulge.defences import catalog
from divulge.studies.compare.defences import Variant
from divulge.studies.harden import optimiser
from divulge.studies.harden.proposal import UNDEFENDED, Proposal
from divulge.training.recipe import Recipe
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workload import StagedTrainer
from divulge.training.trainers import trainer_identity

if TYPE_CHECKING:
    import optuna

WEIGHT_DECAY = Range(3e-4, 0.1, log=True)

_AS_GIVEN = "as given"
_OVER = ("early-stopping", "complementary-distillation", "selena")
"""Defences that can be put over another one: they change which epoch or which labels count."""
_BENEATH = (
    *("regularise", "label-smoothing", "relaxloss", "hamp"),
    *("augmentation", "image-augmentation"),
)
"""Defences that change what a step learns, and so can stand beneath one of those."""


def make_variant(proposal: Proposal, recipe: Recipe, models: int) -> Variant:
    """The way to train and to answer by a proposal.

    Args:
        proposal: the setting.
        recipe: how an undefended model is trained.
        models: how many to train.

    Raises:
        SpecError: the defence refuses the recipe.
    """
    trainer = proposal.as_trainer(recipe)
    answers = None if proposal.answers == UNDEFENDED else catalog.answer_defence(proposal.answers)
    plan = ShadowPlan(trainer, models, fingerprint=trainer_identity(trainer), answers=answers)
    return Variant(proposal.label, plan)


def is_staged(trainer: Trainer) -> bool:
    """Whether one training shows what the model would be, had it ended earlier."""
    return isinstance(trainer, StagedTrainer) and getattr(trainer, "staged", True)


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
