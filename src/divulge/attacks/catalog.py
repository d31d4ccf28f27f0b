"""The registry of attacks: a new attack is its file and one line here, under its short name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from divulge._util.arguments import check_arguments
from divulge._util.registry import build, find_class
from divulge.core import (
    AssignmentAttack,
    CompositionAttack,
    InteractionAttack,
    MembershipAttack,
    Need,
)

CATALOGUE: Mapping[str, Mapping[str, str]] = {
    "membership": {
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
        "token-threshold": "divulge.attacks.membership.token_threshold:TokenThreshold",
        "reference-ratio": "divulge.attacks.membership.reference_ratio:ReferenceRatio",
        "wbc": "divulge.attacks.membership.wbc:WBC",
        "ez-mia": "divulge.attacks.membership.ez_mia:EZMIA",
        "dc-pdd": "divulge.attacks.membership.dc_pdd:DCPDD",
        "recall": "divulge.attacks.membership.recall:ReCaLL",
        "con-recall": "divulge.attacks.membership.recall:ConReCaLL",
        "token-supervised": "divulge.attacks.membership.token_supervised:TokenSupervised",
        "token-lira": "divulge.attacks.membership.token_lira:TokenLiRA",
        "token-rmia": "divulge.attacks.membership.token_rmia:TokenRMIA",
        "token-stack": "divulge.attacks.membership.token_stack:TokenStack",
        "given-score": "divulge.attacks.membership.given_score:GivenScore",
    },
    "assignment": {
        "cluster-lira": "divulge.attacks.membership.cluster_lira.attack:ClusterLiRA",
        "fedmia": "divulge.attacks.assignment.fedmia:FedMIA",
        "projres": "divulge.attacks.assignment.projres:ProjRes",
        "sia": "divulge.attacks.assignment.source_inference:SIA",
        "stacking": "divulge.attacks.assignment.stacking.attack:Stacking",
        "variance-lira": "divulge.attacks.assignment.baselines:VarianceLiRA",
        "confidence-rule": "divulge.attacks.assignment.baselines:ConfidenceRule",
        "nobody": "divulge.attacks.assignment.baselines:Nobody",
    },
    "composition": {
        "decaf": "divulge.attacks.composition.decaf.attack:Decaf",
        "label-counts": "divulge.attacks.composition.label_counts:LabelCounts",
        "ldia": "divulge.attacks.composition.ldia.attack:LDIA",
    },
    "interactions": {
        "raifle": "divulge.attacks.interactions.raifle.attack:RAIFLE",
        "interaction-search": "divulge.attacks.interactions.label_search:InteractionSearch",
        "community-inference": "divulge.attacks.interactions.community:CommunityInference",
        "random-interactions": "divulge.attacks.interactions.baselines:RandomInteractions",
    },
}
"""By secret, attacks by their short names."""

UNINFORMED = ("nobody", "random-interactions", "random")
"""Names of attacks, and of methods of one, that look at nothing: they show what guessing gives."""


@check_arguments
def attack_class(name: str) -> Any:
    """The class of an attack.

    Raises:
        SpecError: no attack has this name.
    """
    every = {short: path for attacks in CATALOGUE.values() for short, path in attacks.items()}
    return find_class(every, "an attack", name)


@check_arguments
def build_attack(secret: str, name: str, /, **settings: Any) -> Any:
    """An attack on a secret with these settings.

    Examples:
        >>> build_attack("composition", "label-counts", method="llg")
        LabelCounts(method='llg', rounds=3)

    Args:
        secret: a key of `CATALOGUE`.
        name: a short name of one of its attacks.
        settings: fields of the attack's class.

    Raises:
        SpecError: no attack on this secret has this name, or it has no such setting, or not with
            such a value.
    """
    return build(find_class(CATALOGUE[secret], f"an attack on {secret}", name), name, settings)


@check_arguments
def attack(name: str, **settings: Any) -> MembershipAttack:
    """A membership attack with these settings.

    Examples:
        >>> attack("threshold", signal="margin")
        Threshold(signal='margin', per_class=False)

    Raises:
        SpecError: no attack has this name, or it has no such setting, or not with such a value.
    """
    built: MembershipAttack = build_attack("membership", name, **settings)
    return built


federation_attack: Callable[..., AssignmentAttack] = partial(build_attack, "assignment")
"""The same of an attack that infers which client trained on a record."""

update_attack: Callable[..., CompositionAttack] = partial(build_attack, "composition")
"""The same of an attack that infers a client's class shares."""

interaction_attack: Callable[..., InteractionAttack] = partial(build_attack, "interactions")
"""The same of an attack that infers what a client interacted with."""


SHADOW_ATTACKS = ("shadow", "calibrated", "lira", "rmia", "shadow-stack", "shadow-gap")

BY_NAME_ALONE = ("oslo", "agreement", "boundary", "iha", "base", "pmia", "seqmia")
"""Attacks that run only where they are named: four ask the model more than its one answer a
record, which all others share; the other three are for comparison with the literature."""

LABEL_ATTACKS = ("gap", "shadow-gap", "oslo", "agreement", "boundary")
"""Attacks that read the label that a model answers, and nothing else of its answer."""

REFERENCE_ATTACKS = (
    *("oslo", "external", "quantile", "cluster-lira", "two-sample", "supervised", "seqmia"),
    *("rmia", "cascade", "mrad", "residual-quantile", "residual-rmia"),
)
"""Attacks that need records of the attacker's own."""

WHITE_BOX_ATTACKS = ("iha", "gradient-norm")
"""Attacks that need the model itself, not its answers alone."""

RESIDUAL_SHADOW_ATTACKS = ("residual-lira", "residual-rmia")

CASCADE_ATTACKS = ("cascade",)

TOKEN_SHADOW_ATTACKS = ("token-lira", "token-rmia", "token-stack")

ATTACKS_WITH_SHADOWS = (
    *(*SHADOW_ATTACKS, "base", "pmia", *CASCADE_ATTACKS, *RESIDUAL_SHADOW_ATTACKS),
    *TOKEN_SHADOW_ATTACKS,
)

PARTIAL_ATTACKS: Mapping[str, Mapping[str, Any]] = {
    "gradient-norm": {},
    "mrad": {"start": "chosen"},  # the paper's zeros are noise to a convolution
}

KNOWN_MEMBER_ATTACKS = ("supervised",)

TOKEN_SIGNALS = ("loss", "zlib", "lowercase", "min-k", "min-k++", "surprising", "gradient-norm")

TOKEN_REFERENCE_ATTACKS = ("reference-ratio", "wbc", "ez-mia")
"""Attacks on a language model that compare with another one."""

TOKEN_CORPUS_ATTACKS = ("dc-pdd",)
"""Attacks on a language model that count tokens in the reference records."""

TOKEN_PREFIX_ATTACKS = ("recall", "con-recall")
"""Attacks on a language model that put texts which the attacker knows before each candidate: non-
members, and for the second also members. Each asks once or twice more about each text."""

CHECKPOINT_ATTACKS = ("lt-iqr",)


def attacks_on(offers: Need, **known: bool) -> tuple[MembershipAttack, ...]:
    """The default attacks on a model.

    Args:
        offers: what its target offers. A language model is asked again about texts behind others
            where no question costs anything; else such attacks run where they are named.
        known: what else there is, as for `default_attacks`.
    """
    return default_attacks(
        regression=Need.VALUES in offers,
        tokens=Need.TOKENS in offers,
        prefix=Need.PREFIX | Need.UNMETERED in offers,
        **known,
    )


def default_attacks(
    *,
    shadows: bool = False,
    partial: bool = False,
    known_members: bool = False,
    checkpoints: bool = False,
    cascade: bool = False,
    regression: bool = False,
    scores: bool = False,
    tokens: bool = False,
    reference: bool = False,
    prefix: bool = False,
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
        tokens: whether the model is a language model of which tokens are known.
        reference: whether the attacker owns non-members; for attacks on tokens alone, since others
            say themselves that they have none.
        prefix: whether a language model may be asked again about texts that stand behind others.
    """
    if tokens:
        return (
            *(attack("token-threshold", signal=signal) for signal in TOKEN_SIGNALS),
            *map(attack, TOKEN_REFERENCE_ATTACKS),
            *(attack(name) for name in TOKEN_CORPUS_ATTACKS if reference),
            *(attack("recall") for _ in range(reference and prefix)),
            *(attack("con-recall") for _ in range(reference and prefix and known_members)),
            *(attack(name) for name in TOKEN_SHADOW_ATTACKS if shadows),
            *(attack("token-supervised") for _ in range(known_members)),
        )
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
        *(attack(name, **PARTIAL_ATTACKS[name]) for name in PARTIAL_ATTACKS if partial),
        *(attack(name) for name in KNOWN_MEMBER_ATTACKS if known_members),
        *(attack(name) for name in CHECKPOINT_ATTACKS if checkpoints),
        *(attack(name) for name in CASCADE_ATTACKS if cascade),
    )
