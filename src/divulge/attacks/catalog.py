"""The registry of attacks: a new attack is its file and one line here, under its short name."""

from typing import Any

from divulge._util.arguments import check_arguments
from divulge._util.registry import build, find_class
from divulge.core import AssignmentAttack, CompositionAttack, InteractionAttack, MembershipAttack

ATTACKS = {
    "threshold": "divulge.attacks.membership.threshold:Threshold",
    "gap": "divulge.attacks.membership.gap:Gap",
    "shadow-gap": "divulge.attacks.membership.shadow_gap:ShadowGap",
    "oslo": "divulge.attacks.membership.oslo.attack:OSLO",
    "agreement": "divulge.attacks.membership.agreement:Agreement",
    "boundary": "divulge.attacks.membership.boundary.attack:Boundary",
    "external": "divulge.attacks.membership.external:External",
    "quantile": "divulge.attacks.membership.quantile:Quantile",
    "cluster-lira": "divulge.attacks.membership.cluster_lira.attack:ClusterLiRA",
    "two-sample": "divulge.attacks.membership.two_sample:TwoSample",
    "supervised": "divulge.attacks.membership.supervised:SupervisedAttack",
    "shadow": "divulge.attacks.membership.shadow:Shadow",
    "calibrated": "divulge.attacks.membership.calibrated:CalibratedLoss",
    "lira": "divulge.attacks.membership.lira:LiRA",
    "rmia": "divulge.attacks.membership.rmia:RMIA",
    "base": "divulge.attacks.membership.base:BASE",
    "pmia": "divulge.attacks.membership.pmia:PMIA",
    "shadow-stack": "divulge.attacks.membership.shadow_stack.attack:ShadowStack",
    "cascade": "divulge.attacks.membership.cascade:Cascade",
    "seqmia": "divulge.attacks.membership.metric_sequence:SeqMIA",
    "lt-iqr": "divulge.attacks.membership.loss_trace:LossTraceIQR",
    "iha": "divulge.attacks.membership.inverse_hessian:InverseHessian",
    "gradient-norm": "divulge.attacks.membership.gradient_norm:GradientNorm",
    "mrad": "divulge.attacks.membership.mrad.attack:MRAD",
    "residual": "divulge.attacks.membership.threshold:Residual",
    "residual-quantile": "divulge.attacks.membership.quantile:ResidualQuantile",
    "residual-lira": "divulge.attacks.membership.lira:ResidualLiRA",
    "residual-rmia": "divulge.attacks.membership.rmia:ResidualRMIA",
    "given-score": "divulge.attacks.membership.given_score:GivenScore",
}


UPDATE_ATTACKS = {
    "decaf": "divulge.attacks.composition.decaf.attack:Decaf",
    "label-counts": "divulge.attacks.composition.label_counts:LabelCounts",
    "ldia": "divulge.attacks.composition.ldia:LDIA",
}
"""Attacks on one client of a federation that infer its class shares from its updates."""


INTERACTION_ATTACKS = {
    "raifle": "divulge.attacks.interactions.raifle.attack:RAIFLE",
    "interaction-search": "divulge.attacks.interactions.label_search:InteractionSearch",
    "community-inference": "divulge.attacks.interactions.community:CommunityInference",
    "random-interactions": "divulge.attacks.interactions.baselines:RandomInteractions",
}
"""Attacks on one client that infer its interactions with the items shown to it from its updates."""


FEDERATION_ATTACKS = {
    "cluster-lira": "divulge.attacks.membership.cluster_lira.attack:ClusterLiRA",
    "fedmia": "divulge.attacks.assignment.fedmia:FedMIA",
    "sia": "divulge.attacks.assignment.source_inference:SIA",
    "stacking": "divulge.attacks.assignment.stacking.attack:Stacking",
    "variance-lira": "divulge.attacks.assignment.baselines:VarianceLiRA",
    "confidence-rule": "divulge.attacks.assignment.baselines:ConfidenceRule",
    "nobody": "divulge.attacks.assignment.baselines:Nobody",
}
"""Attacks that infer which client of a federation trained on a record."""


@check_arguments
def attack_class(name: str) -> Any:
    """The class of an attack.

    Raises:
        SpecError: no attack has this name.
    """
    registry = ATTACKS | UPDATE_ATTACKS | INTERACTION_ATTACKS | FEDERATION_ATTACKS
    return find_class(registry, "an attack", name)


@check_arguments
def attack(name: str, **settings: Any) -> MembershipAttack:
    """A membership attack with these settings.

    Examples:
        >>> attack("threshold", signal="margin")
        Threshold(signal='margin', per_class=False)

    Raises:
        SpecError: no attack has this name, or it has no such setting, or not with such a value.
    """
    found = find_class(ATTACKS, "a membership attack", name)
    built: MembershipAttack = build(found, name, settings)
    return built


@check_arguments
def update_attack(name: str, **settings: Any) -> CompositionAttack:
    """An attack on a client's updates with these settings.

    Examples:
        >>> update_attack("label-counts", method="llg")
        LabelCounts(method='llg', rounds=3)

    Raises:
        SpecError: see `attack`.
    """
    found = find_class(UPDATE_ATTACKS, "an attack on updates", name)
    built: CompositionAttack = build(found, name, settings)
    return built


@check_arguments
def interaction_attack(name: str, **settings: Any) -> InteractionAttack:
    """An attack on interactions with these settings.

    Examples:
        >>> interaction_attack("random-interactions")
        RandomInteractions()

    Raises:
        SpecError: see `attack`.
    """
    found = find_class(INTERACTION_ATTACKS, "an attack on interactions", name)
    built: InteractionAttack = build(found, name, settings)
    return built


@check_arguments
def federation_attack(name: str, **settings: Any) -> AssignmentAttack:
    """An attack on the clients of a federation with these settings.

    Examples:
        >>> federation_attack("nobody").name
        'nobody'

    Raises:
        SpecError: see `attack`.
    """
    found = find_class(FEDERATION_ATTACKS, "an attack on a federation's clients", name)
    built: AssignmentAttack = build(found, name, settings)
    return built


SHADOW_ATTACKS = ("shadow", "calibrated", "lira", "rmia", "shadow-stack", "shadow-gap")

BY_NAME_ALONE = ("oslo", "agreement", "boundary", "iha", "base", "pmia", "seqmia")
"""Attacks that run only where they are named: four ask the model more than its one answer a
record, which all others share; the other three are for comparison with the literature."""

RESIDUAL_SHADOW_ATTACKS = ("residual-lira", "residual-rmia")

CASCADE_ATTACKS = ("cascade",)

ATTACKS_WITH_SHADOWS = (
    *SHADOW_ATTACKS, "base", "pmia", *CASCADE_ATTACKS, *RESIDUAL_SHADOW_ATTACKS
)  # fmt: skip

PARTIAL_ATTACKS = ("gradient-norm", "mrad")

KNOWN_MEMBER_ATTACKS = ("supervised",)

CHECKPOINT_ATTACKS = ("lt-iqr",)


def default_attacks(
    *,
    shadows: bool = False,
    partial: bool = False,
    known_members: bool = False,
    checkpoints: bool = False,
    cascade: bool = False,
    regression: bool = False,
    scores: bool = False,
) -> tuple[MembershipAttack, ...]:
    """The attacks that run if the user names none: all but `BY_NAME_ALONE`, each signal once.

    Args:
        shadows: whether there are shadow models, which some attacks need.
        partial: whether only some features of the candidates are known.
        known_members: whether the attacker knows some members, which some attacks need.
        checkpoints: whether there are checkpoints of the training, which some attacks need.
        cascade: whether further shadow models can be trained, which some attacks need.
        regression: whether the model answers numbers, which has attacks of its own.
        scores: whether one loss or score of each record is all that is known.
    """
    if scores:
        return (attack("given-score"),)
    if regression:
        return (
            attack("residual"),
            attack("residual-quantile"),
            attack("residual-quantile", given="prediction"),
            *(attack(name) for name in RESIDUAL_SHADOW_ATTACKS if shadows),
        )
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
        *(attack(name) for name in KNOWN_MEMBER_ATTACKS if known_members),
        *(attack(name) for name in CHECKPOINT_ATTACKS if checkpoints),
        *(attack(name) for name in CASCADE_ATTACKS if cascade),
    )
