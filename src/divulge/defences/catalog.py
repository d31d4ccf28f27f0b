"""The registry of defences, from a short name to a class; a new defence needs one line here."""

from typing import Any

from divulge._util.arguments import check_arguments
from divulge._util.registry import build, find_class
from divulge.core import AnswerDefence, Trainer, UpdateDefence

UPDATE_DEFENCES = {
    "none": "divulge.core:UpdateDefence",
    "local-noise": "divulge.defences.updates.local_dp:LocalNoise",
    "dp-fedavg": "divulge.defences.updates.dp_fedavg:DPFedAvg",
    "secure-sum": "divulge.defences.updates.secure_aggregation:SecureSum",
    "top-k": "divulge.defences.updates.compression:TopK",
    "sign": "divulge.defences.updates.compression:Sign",
    "own-last-layer": "divulge.defences.updates.own_last_layer:OwnLastLayer",
}


TRAINED_DEFENCES = {
    "early-stopping": "divulge.defences.training.early_stopping:EarlyStopping",
    "regularise": "divulge.defences.training.regularise:Regularise",
    "label-smoothing": "divulge.defences.training.label_smoothing:LabelSmoothing",
    "relaxloss": "divulge.defences.training.relaxloss:RelaxLoss",
    "convex-concave": "divulge.defences.training.convex_concave:ConvexConcaveLoss",
    "hamp": "divulge.defences.training.hamp:HAMP",
    "augmentation": "divulge.defences.training.augmentation:Augmentation",
    "image-augmentation": "divulge.defences.training.augmentation:ImageAugmentation",
    "adversarial-regularisation": "divulge.defences.training.adversarial:AdversarialRegularisation",
    "complementary-distillation": "divulge.defences.training.complementary:"
    "ComplementaryDistillation",
    "selena": "divulge.defences.training.selena:SELENA",
    "mist": "divulge.defences.training.mist:MIST",
    "dap": "divulge.defences.training.dap.trainer:DAP",
    "dp-sgd": "divulge.defences.training.dp_sgd.trainer:DPSGD",
}
"""Trainers whose models leak less; each takes the recipe of an undefended model first."""


TUNED_DEFENCES = {
    "averaging": "divulge.defences.training.averaging:Averaging",
}
"""Trainers of models of any kind; each takes the trainer of an undefended model first."""


ANSWER_DEFENCES = {
    "rounding": "divulge.defences.answers.coarse:Rounding",
    "top-1": "divulge.defences.answers.coarse:TopOne",
    "temperature": "divulge.defences.answers.temperature:Temperature",
    "answer-noise": "divulge.defences.answers.noise:AnswerNoise",
    "rank-order": "divulge.defences.answers.noise:RankOrder",
}
"""Defences that change a model's predictions before they are returned."""


def update_defence_class(name: str) -> Any:
    """The class of an update defence.

    Raises:
        SpecError: no update defence has this name.
    """
    return find_class(UPDATE_DEFENCES, "an update defence", name)


def trained_defence_class(name: str) -> Any:
    """The class of a defence that is trained in.

    Raises:
        SpecError: no such defence has this name.
    """
    return find_class(TRAINED_DEFENCES, "a defence that is trained in", name)


def tuned_defence_class(name: str) -> Any:
    """The class of a defence of models of any kind.

    Raises:
        SpecError: no such defence has this name.
    """
    return find_class(TUNED_DEFENCES, "a defence of any model", name)


def answer_defence_class(name: str) -> Any:
    """The class of an answer defence.

    Raises:
        SpecError: no answer defence has this name.
    """
    return find_class(ANSWER_DEFENCES, "an answer defence", name)


@check_arguments
def update_defence(name: str, **settings: Any) -> UpdateDefence:
    """An update defence with these settings.

    Examples:
        >>> update_defence("top-k", share=0.5)
        TopK(share=0.5)

    Raises:
        SpecError: no update defence has this name, or it has no such setting, or not with such a
            value, or lacks one that has no default.
    """
    built: UpdateDefence = build(update_defence_class(name), name, settings)
    return built


@check_arguments
def trained_defence(name: str, recipe: Any, **settings: Any) -> Trainer:
    """A trainer of defended models with these settings.

    Args:
        name: the name of the defence in the registry.
        recipe: the `divulge.training.Recipe` of an undefended model.
        settings: the settings of the defence, by name.

    Raises:
        SpecError: see `update_defence`.
    """
    built: Trainer = build(trained_defence_class(name), name, settings, recipe=recipe)
    return built


@check_arguments
def tuned_defence(name: str, trainer: Trainer, **settings: Any) -> Trainer:
    """A trainer of defended models of any kind with these settings.

    Args:
        name: the name of the defence in the registry.
        trainer: trains undefended models.
        settings: the settings of the defence, by name.

    Raises:
        SpecError: see `update_defence`.
    """
    built: Trainer = build(tuned_defence_class(name), name, settings, trainer=trainer)
    return built


@check_arguments
def answer_defence(name: str, **settings: Any) -> AnswerDefence:
    """An answer defence with these settings.

    Examples:
        >>> answer_defence("rounding", digits=2)
        Rounding(digits=2)

    Raises:
        SpecError: see `update_defence`.
    """
    built: AnswerDefence = build(answer_defence_class(name), name, settings)
    return built
