"""Short name to class: the only registry. An attack or a defence is its file and one line here."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, get_type_hints

import pydantic

from divulge.core import (
    AnswerDefence,
    AssignmentAttack,
    CompositionAttack,
    InteractionAttack,
    MembershipAttack,
    Trainer,
    UpdateDefence,
)
from divulge.errors import SpecError, did_you_mean

ATTACKS = {
    "threshold": "divulge.attacks.threshold:Threshold",
    "gap": "divulge.attacks.gap:Gap",
    "external": "divulge.attacks.external:External",
    "quantile": "divulge.attacks.quantile:Quantile",
    "cluster-lira": "divulge.attacks.cluster_lira:ClusterLiRA",
    "two-sample": "divulge.attacks.two_sample:TwoSample",
    "shadow": "divulge.attacks.shadow:Shadow",
    "calibrated": "divulge.attacks.calibrated:Calibrated",
    "lira": "divulge.attacks.lira:LiRA",
    "rmia": "divulge.attacks.rmia:RMIA",
    "shadow-stack": "divulge.attacks.shadow_stack:ShadowStack",
    "gradient-norm": "divulge.attacks.gradient_norm:GradientNorm",
    "mrad": "divulge.attacks.mrad:MRAD",
}

UPDATE_ATTACKS = {
    "decaf": "divulge.attacks.decaf:Decaf",
    "label-counts": "divulge.attacks.label_counts:LabelCounts",
}
"""What attacks one client of a federation by its updates, for the shares of its classes."""

INTERACTION_ATTACKS = {
    "raifle": "divulge.attacks.raifle:RAIFLE",
    "interaction-search": "divulge.attacks.interaction_search:InteractionSearch",
    "random-interactions": "divulge.attacks.random_interactions:RandomInteractions",
}
"""What attacks one client by its updates, for what it did with the items it was handed."""

FEDERATION_ATTACKS = {
    "cluster-lira": "divulge.attacks.cluster_lira:ClusterLiRA",
    "stacking": "divulge.attacks.stacking:Stacking",
    "variance-lira": "divulge.attacks.federated_baselines:VarianceLiRA",
    "confidence-rule": "divulge.attacks.federated_baselines:ConfidenceRule",
    "nobody": "divulge.attacks.federated_baselines:Nobody",
}
"""What says which client of a federation trained on a record."""

UPDATE_DEFENCES = {
    "none": "divulge.core:UpdateDefence",
    "local-noise": "divulge.defences.local_noise:LocalNoise",
    "secure-sum": "divulge.defences.secure_sum:SecureSum",
    "top-k": "divulge.defences.compress:TopK",
    "sign": "divulge.defences.compress:Sign",
}

TRAINED_DEFENCES = {
    "early-stopping": "divulge.defences.early_stopping:EarlyStopping",
    "regularise": "divulge.defences.regularise:Regularise",
    "label-smoothing": "divulge.defences.label_smoothing:LabelSmoothing",
    "relaxloss": "divulge.defences.relaxloss:RelaxLoss",
    "adversarial-regularisation": "divulge.defences.adversarial:AdversarialRegularisation",
    "selena": "divulge.defences.selena:SELENA",
    "dap": "divulge.defences.dap:DAP",
    "dp-sgd": "divulge.defences.dp_sgd:DPSGD",
}
"""Trainers whose models give away less: each takes the recipe of an undefended one first."""

ANSWER_DEFENCES = {
    "rounding": "divulge.defences.coarse:Rounding",
    "top-1": "divulge.defences.coarse:TopOne",
    "temperature": "divulge.defences.temperature:Temperature",
    "answer-noise": "divulge.defences.answer_noise:AnswerNoise",
}
"""What changes a model's answers before anybody sees them."""


def attack_class(name: str) -> Any:
    """The class of an attack.

    Raises:
        SpecError: no attack has this name.
    """
    registry = ATTACKS | UPDATE_ATTACKS | INTERACTION_ATTACKS | FEDERATION_ATTACKS
    return _class(registry, "an attack", name)


def defence_class(name: str) -> Any:
    """The class of an update defence.

    Raises:
        SpecError: no update defence has this name.
    """
    return _class(UPDATE_DEFENCES, "an update defence", name)


def trained_defence_class(name: str) -> Any:
    """The class of a defence that is trained in.

    Raises:
        SpecError: no such defence has this name.
    """
    return _class(TRAINED_DEFENCES, "a defence that is trained in", name)


def answer_defence_class(name: str) -> Any:
    """The class of an answer defence.

    Raises:
        SpecError: no answer defence has this name.
    """
    return _class(ANSWER_DEFENCES, "an answer defence", name)


def attack(name: str, **settings: Any) -> MembershipAttack:
    """A membership attack with these settings.

    Examples:
        >>> attack("threshold", signal="margin")
        Threshold(signal='margin', per_class=False)

    Raises:
        SpecError: no attack has this name, or it has no such setting, or not with such a value.
    """
    found = _class(ATTACKS, "a membership attack", name)
    built: MembershipAttack = _build(found, name, settings)
    return built


def update_attack(name: str, **settings: Any) -> CompositionAttack:
    """An attack on a client's updates with these settings.

    Examples:
        >>> update_attack("label-counts", method="llg")
        LabelCounts(method='llg', rounds=3)

    Raises:
        SpecError: see `attack`.
    """
    found = _class(UPDATE_ATTACKS, "an attack on updates", name)
    built: CompositionAttack = _build(found, name, settings)
    return built


def interaction_attack(name: str, **settings: Any) -> InteractionAttack:
    """An attack on interactions with these settings.

    Examples:
        >>> interaction_attack("random-interactions")
        RandomInteractions()

    Raises:
        SpecError: see `attack`.
    """
    found = _class(INTERACTION_ATTACKS, "an attack on interactions", name)
    built: InteractionAttack = _build(found, name, settings)
    return built


def federation_attack(name: str, **settings: Any) -> AssignmentAttack:
    """An attack on the clients of a federation with these settings.

    Examples:
        >>> federation_attack("nobody").name
        'nobody'

    Raises:
        SpecError: see `attack`.
    """
    found = _class(FEDERATION_ATTACKS, "an attack on a federation's clients", name)
    built: AssignmentAttack = _build(found, name, settings)
    return built


def update_defence(name: str, **settings: Any) -> UpdateDefence:
    """An update defence with these settings.

    Examples:
        >>> update_defence("top-k", share=0.5)
        TopK(share=0.5)

    Raises:
        SpecError: no update defence has this name, or it has no such setting, or not with such a
            value, or lacks one that has no default.
    """
    built: UpdateDefence = _build(defence_class(name), name, settings)
    return built


def trained_defence(name: str, recipe: Any, **settings: Any) -> Trainer:
    """A trainer of defended models with these settings.

    Args:
        name: of the defence.
        recipe: the `divulge.training.recipe.Recipe` of an undefended model.
        settings: of the defence.

    Raises:
        SpecError: see `update_defence`.
    """
    built: Trainer = _build(trained_defence_class(name), name, settings, recipe=recipe)
    return built


def answer_defence(name: str, **settings: Any) -> AnswerDefence:
    """An answer defence with these settings.

    Examples:
        >>> answer_defence("rounding", digits=2)
        Rounding(digits=2)

    Raises:
        SpecError: see `update_defence`.
    """
    built: AnswerDefence = _build(answer_defence_class(name), name, settings)
    return built


def _class(registry: Mapping[str, str], what: str, name: str) -> Any:
    if name not in registry:
        hint = did_you_mean(name, registry)
        raise SpecError(f"expected the name of {what}, got {name!r}: {hint}")
    module, _, cls = registry[name].partition(":")
    return getattr(importlib.import_module(module), cls)


def _build(cls: Any, name: str, settings: Mapping[str, Any], **given: Any) -> Any:
    """An object of these settings, each checked by its type, and of what is given as it is."""
    fields = [field for field in dataclasses.fields(cls) if field.name not in given]
    known = [field.name for field in fields]
    for key in settings:
        if key not in known:
            hint = did_you_mean(key, known) if known else "it has none"
            raise SpecError(f"expected a setting of {name}, got {key!r}: {hint}")
    for field in fields:
        if field.default is dataclasses.MISSING and field.name not in settings:
            raise SpecError(f"expected a value for {field.name} of {name}, got none: choose one")
    kinds = get_type_hints(cls)
    return cls(**given, **{key: _valid(name, key, kinds[key], settings[key]) for key in settings})


def _valid(name: str, key: str, kind: Any, value: Any) -> Any:
    try:
        return pydantic.TypeAdapter(kind).validate_python(value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise SpecError(
            f"expected a valid value for {'.'.join(map(str, (key, *first['loc'])))} of {name}, "
            f"got {first['input']!r}: {first['msg']}"
        ) from error


SHADOW_ATTACKS = ("shadow", "calibrated", "lira", "rmia", "shadow-stack")
PARTIAL_ATTACKS = ("gradient-norm", "mrad")


def default(*, shadows: bool = False, partial: bool = False) -> tuple[MembershipAttack, ...]:
    """What runs when nothing is asked for: every attack, and each signal once.

    Args:
        shadows: whether shadow models are there for the attacks that need them.
        partial: whether only some features of the candidates are known.
    """
    signals = ("loss", "scaled_logit", "confidence", "entropy", "modified_entropy", "margin")
    return (
        *(attack("threshold", signal=signal) for signal in signals),
        attack("threshold", signal="scaled_logit", per_class=True),
        attack("gap"),
        attack("external", signal="scaled_logit", per_class=True),
        attack("quantile"),
        attack("cluster-lira"),
        attack("two-sample"),
        *(attack(name) for name in SHADOW_ATTACKS if shadows),
        *(attack(name) for name in PARTIAL_ATTACKS if partial),
    )
