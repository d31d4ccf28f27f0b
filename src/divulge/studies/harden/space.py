"""What a search tries: defences, alone or one over another, their settings, and the epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from divulge._util.json import JSON
from divulge.core import Range, SearchSpace, Trainer
from divulge.defences import catalog
from divulge.studies.compare.defences import Variant
from divulge.studies.harden import optimiser
from divulge.studies.harden.proposal import AVERAGING, UNDEFENDED, Proposal
from divulge.training.recipe import Recipe
from divulge.training.shadows.plan import ShadowPlan
from divulge.training.shadows.workload import StagedTrainer
from divulge.training.trainers import trainer_identity
from divulge.training.tuning import HYPERPARAMETERS, Tunable

if TYPE_CHECKING:
    import optuna

WEIGHT_DECAY = Range(3e-4, 0.1, log=True)

_AS_GIVEN = "as given"
_OVER = ("early-stopping", "complementary-distillation", "selena")
"""Defences that can be put over another one: they change which epoch or which labels count."""
_BENEATH = (
    *("regularise", "label-smoothing", "relaxloss", "convex-concave", "hamp"),
    *("augmentation", "image-augmentation"),
)
"""Defences that change what a step learns, and so can stand beneath one of those."""


def make_variant(proposal: Proposal, base: Recipe | Tunable, models: int) -> Variant:
    """The way to train and to answer by a proposal.

    Args:
        proposal: the setting.
        base: how an undefended model is trained.
        models: how many to train.

    Raises:
        SpecError: the defence refuses the base.
    """
    trainer = proposal.as_trainer(base)
    answers = None if proposal.answers == UNDEFENDED else catalog.answer_defence(proposal.answers)
    plan = ShadowPlan(trainer, models, fingerprint=trainer_identity(trainer), answers=answers)
    return Variant(proposal.label, plan)


def is_staged(trainer: Trainer) -> bool:
    """Whether one training shows what the model would be, had it ended earlier."""
    return isinstance(trainer, StagedTrainer) and getattr(trainer, "staged", True)


def propose(
    trial: "optuna.Trial",
    families: Sequence[str],
    epochs: Sequence[int],
    base: Recipe | Tunable,
) -> Proposal:
    """What the optimiser tries next.

    Args:
        trial: of the optimiser.
        families: the defences, by name.
        epochs: numbers of epochs for a defence that is not looked at while it trains, or that
            trains teachers first; the last one is that of all others.
        base: how an undefended model is trained.
    """
    if isinstance(base, Tunable):
        return _propose_tuned(trial, families, base)
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


def _propose_tuned(trial: "optuna.Trial", families: Sequence[str], base: Tunable) -> Proposal:
    defence = trial.suggest_categorical("defence", _proposed(families))
    if defence != AVERAGING:
        changed = _suggest_space(trial, base) if defence == HYPERPARAMETERS else {}
        return tuned_proposal(changed)
    settings = _suggest_settings(trial, defence, defence)
    changed = _suggest_space(trial, base) if HYPERPARAMETERS in families else {}
    return tuned_proposal(changed, settings)


def _proposed(families: Sequence[str]) -> list[str]:
    """What the optimiser chooses of: the undefended model is settings of which none is changed."""
    return [name for name in families if name != UNDEFENDED or HYPERPARAMETERS not in families]


def _suggest_space(trial: "optuna.Trial", base: Tunable) -> dict[str, JSON]:
    """Of each setting a value, or as it is; by the places of values, which are in order."""
    places = {
        name: trial.suggest_int(f"{HYPERPARAMETERS}.{name}", 0, len(values))
        for name, values in base.space.items()
    }
    return {name: base.space[name][at - 1] for name, at in places.items() if at}


def tuned_proposal(
    changed: Mapping[str, JSON], averaging: Mapping[str, JSON] | None = None
) -> Proposal:
    """A setting of a way to train without epochs.

    Args:
        changed: settings of the way to train.
        averaging: of averaging over it; None for a single model.
    """
    own = HYPERPARAMETERS if changed else UNDEFENDED
    if averaging is None:
        return Proposal(own, changed, 0, None, UNDEFENDED)
    return Proposal(AVERAGING, averaging, 0, None, UNDEFENDED, own, changed)


STEPS = 3
"""In so many steps all settings of a space go together from the mildest to the strongest values."""


def first_tuned(families: Sequence[str], base: Tunable) -> list[Proposal]:
    """All settings together a third, two thirds and all of the way; then averages of models.

    Args:
        families: the defences, by name.
        base: how an undefended model is trained.
    """
    proposals = []
    if HYPERPARAMETERS in families and base.space:
        proposals = [
            tuned_proposal({
                name: values[max(1, round(step / STEPS * len(values))) - 1]
                for name, values in base.space.items()
            })
            for step in range(1, STEPS + 1)
        ]  # fmt: skip
    if AVERAGING in families:
        proposals.append(tuned_proposal({}, first_proposal(AVERAGING, 0).settings))
    return list({proposal.label: proposal for proposal in proposals}.values())


def _values_of_tuned(first: Proposal, families: Sequence[str], base: Tunable) -> dict[str, Any]:
    known = _proposed(families)
    values: dict[str, Any] = {
        "defence": first.defence if first.defence in known else HYPERPARAMETERS
    }
    changed = first.settings
    if first.defence == AVERAGING:
        values |= {f"{AVERAGING}.{name}": value for name, value in first.settings.items()}
        changed = first.beneath_settings
    for name, choices in base.space.items():
        at = choices.index(changed[name]) + 1 if name in changed else 0
        values[f"{HYPERPARAMETERS}.{name}"] = at
    return values


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


def first_choices(
    defences: Sequence[str], several: Sequence[int], whole: int
) -> list[list[Proposal]]:
    """Of each defence its first proposals, for one of which the budget may pay.

    Args:
        defences: their names.
        several: numbers of epochs of those whose whole training may be shorter, the longest first.
        whole: the number of epochs of all others.
    """
    return [
        [
            first_proposal(name, length)
            for length in (several if name in SEVERAL_LENGTHS else (whole,))
        ]
        for name in defences
    ]


def values_of(first: Proposal, families: Sequence[str], base: Recipe | Tunable) -> dict[str, Any]:
    """A first proposal as values of the optimiser's trial."""
    if isinstance(base, Tunable):
        return _values_of_tuned(first, families, base)
    values: dict[str, Any] = {"defence": first.defence, "weight_decay": _AS_GIVEN}
    values |= {f"{first.defence}.{name}": value for name, value in first.settings.items()}
    if first.defence in SEVERAL_LENGTHS:
        values[f"{first.defence}.epochs"] = first.epochs
    if first.defence in _OVER:
        values[f"{first.defence}.beneath"] = UNDEFENDED
    return values


def _usual(defence: str, name: str, values: Range | tuple[Any, ...]) -> Any:
    """The default of a setting, if the search may come to it; else a value in the middle."""
    cls = _class_of(defence)
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
    space: SearchSpace = _class_of(defence).search
    return space


def _class_of(defence: str) -> Any:
    if defence in catalog.TUNED_DEFENCES:
        return catalog.tuned_defence_class(defence)
    return catalog.trained_defence_class(defence)
