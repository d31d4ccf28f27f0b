"""Each number that a setting may be is accepted at its limit, and refused just beyond it."""

import dataclasses
import importlib
import math
import re
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from divulge.errors import DivulgeError
from divulge.training.recipe import Recipe
from divulge.training.trainers import EstimatorTrainer

RECIPE = Recipe(list, select="accuracy")  # type: ignore[arg-type]

TABLE: tuple[tuple[str, dict[str, str], dict[str, Any]], ...] = (
    ("attacks.assignment.fedmia:FedMIA", {"fpr": "(0, 1)"}, {}),
    ("attacks.assignment.projres:ProjRes", {"fpr": "(0, 1)"}, {}),
    (
        "attacks.assignment.stacking.attack:Stacking",
        {"percentile": "[0, 100]", "dominance": "(0, "},
        {},
    ),
    (
        "attacks.composition.decaf.attack:Decaf",
        {"clients": "[24, ", "rounds": "[1, ", "null_error": "(0, 1)"},
        {},
    ),
    ("attacks.composition.label_counts:LabelCounts", {"rounds": "[1, "}, {}),
    (
        "attacks.composition.ldia.attack:LDIA",
        {"clients": "[24, ", "rounds": "[1, ", "epochs": "[1, "},
        {},
    ),
    (
        "attacks.interactions.community:CommunityInference",
        {"users": "[1, ", "size": "[1, "},
        {},
    ),
    (
        "attacks.interactions.label_search:InteractionSearch",
        {"tries": "[1, ", "kept": "(0, 1)", "positive": "(0, 1)"},
        {},
    ),
    ("attacks.interactions.raifle.attack:RAIFLE", {"steps": "[1, ", "starts": "[1, "}, {}),
    ("attacks.membership.agreement:Agreement", {"noise": "(0, ", "flips": "(0, 1]"}, {}),
    ("attacks.membership.base:BASE", {"scale": "[0, 1]"}, {}),
    ("attacks.membership.cascade:Cascade", {"precision": "(0.5, 1)"}, {}),
    (
        "attacks.membership.cluster_lira.attack:ClusterLiRA",
        {"share": "(0, 1)", "dimensions": "[1, "},
        {},
    ),
    ("attacks.membership.dc_pdd:DCPDD", {"bound": "(0, "}, {}),
    ("attacks.membership.external:External", {"floor": "(0, "}, {}),
    (
        "attacks.membership.inverse_hessian:InverseHessian",
        {"learning_rate": "(0, ", "damping": "(0, "},
        {},
    ),
    ("attacks.membership.mrad.attack:MRAD", {"alpha": "[0, ", "budget": "[1, "}, {}),
    (
        "attacks.membership.mrad.reconstruction:Descent",
        {"step": "(0, ", "iterations": "[0, ", "epsilon": "(0, ", "directions": "[1, "},
        {"step": 1.0, "iterations": 1},
    ),
    (
        "attacks.membership.oslo.attack:OSLO",
        {"noise": "(0, ", "flips": "(0, 1]", "threshold": "(0, 1)"},
        {},
    ),
    ("attacks.membership.recall:ConReCaLL", {"gamma": "[0, 1]"}, {}),
    ("attacks.membership.rmia:RMIA", {"temperature": "(0, "}, {}),
    (
        "attacks.membership.token_threshold:TokenThreshold",
        {"share": "(0, 1]", "entropy": "(0, "},
        {},
    ),
    ("attacks.membership.two_sample:TwoSample", {"folds": "[2, "}, {}),
    ("core.training:Guarantee", {"epsilon": "(0, inf)", "delta": "[0, 1)"},
     {"epsilon": 1.0, "delta": 0.1}),
    ("data.known_features:KnownFeatures", {"share": "[0, 1]", "completions": "[1, "},
     {"share": 0.5}),
    ("defences.answers.coarse:Rounding", {"digits": "[1, 9]"}, {}),
    ("defences.answers.noise:AnswerNoise", {"distortion": "(0, 2]"}, {}),
    ("defences.answers.temperature:Temperature", {"temperature": "(0, inf)"}, {}),
    ("defences.training.adversarial:AdversarialRegularisation",
     {"weight": "[0, inf)", "attacker_lr": "(0, inf)"}, {"recipe": RECIPE}),
    ("defences.training.augmentation:Augmentation", {"mixup": "[0, inf)"},
     {"recipe": RECIPE, "noise": 1.0}),
    ("defences.training.augmentation:Augmentation", {"noise": "[0, inf)"},
     {"recipe": RECIPE, "mixup": 1.0}),
    ("defences.training.augmentation:ImageAugmentation", {"shift": "[0, "},
     {"recipe": RECIPE, "flip": True}),
    ("defences.training.augmentation:ImageAugmentation", {"shift": "[1, "},
     {"recipe": RECIPE, "flip": False}),
    ("defences.training.averaging:Averaging", {"models": "[2, ", "share": "(0, 1)"},
     {"trainer": EstimatorTrainer(DecisionTreeClassifier())}),
    ("defences.training.complementary:ComplementaryDistillation",
     {"folds": "[2, ", "temperature": "(0, inf)"}, {"recipe": RECIPE}),
    ("defences.training.convex_concave:ConvexConcaveLoss", {"alpha": "(0, 1]"},
     {"recipe": RECIPE}),
    ("defences.training.dap.trainer:DAP", {"shadows": "[1, "}, {"recipe": RECIPE}),
    ("defences.training.dp_sgd.trainer:DPSGD",
     {"delta": "(0, 1)", "noise_multiplier": "[1e-6, 1e6]", "max_grad_norm": "[1e-6, 1e6]"},
     {"recipe": RECIPE, "delta": 1e-5, "noise_multiplier": 1.0}),
    ("defences.training.dp_sgd.trainer:DPSGD", {"epsilon": "[1e-6, 1e6]", "rounds": "[1, "},
     {"recipe": RECIPE, "delta": 1e-5, "epsilon": 1.0}),
    ("defences.training.hamp:HAMP", {"entropy": "[0, 1)", "weight": "[0, inf)"},
     {"recipe": RECIPE}),
    ("defences.training.label_smoothing:LabelSmoothing", {"amount": "[0, 1)"},
     {"recipe": RECIPE}),
    ("defences.training.regularise:Regularise", {"dropout": "[0, 1)", "l2": "[0, "},
     {"recipe": RECIPE}),
    ("defences.training.relaxloss:RelaxLoss", {"alpha": "[0, inf)", "upper": "(0, 1]"},
     {"recipe": RECIPE}),
    ("defences.training.selena:SELENA", {"left_out": "[1, 11]"}, {"recipe": RECIPE, "models": 12}),
    ("defences.updates.compression:TopK", {"share": "(0, 1]"}, {}),
    ("defences.updates.compression:Sign", {"scale": "(0, inf)"}, {}),
    ("defences.updates.dp_fedavg:DPFedAvg",
     {"noise_multiplier": "(0, inf)", "clip": "(0, inf)", "delta": "(0, 1)"},
     {"noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5}),
    ("defences.updates.local_dp:LocalNoise",
     {"epsilon": "(0, inf)", "clip": "(0, inf)", "delta": "(0, 1)"},
     {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0}),
    ("defences.updates.local_dp:LocalNoise", {"epsilon": "(0, 1]"},
     {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0, "mechanism": "gaussian"}),
    ("defences.updates.local_dp:LocalNoise", {"delta": "[0, 0]"},
     {"epsilon": 1.0, "delta": 0.0, "clip": 1.0, "mechanism": "laplace"}),
    ("defences.updates.secure_aggregation:SecureSum", {"fraction_bits": "[0, 52]"},
     {"limit": 1.0}),
    ("defences.updates.secure_aggregation:SecureSum", {"limit": "[1e-9, "}, {}),
    ("federation.flower.guardrail:Guardrail", {"limit": "[0, 1]"}, {}),
    ("federation.manipulation.features:NoiseInjection",
     {"scale": "(0, inf)", "share": "[0, 1]", "budget": "[0, "}, {}),
    ("federation.manipulation.pixels:PixelNoise",
     {"scale": "(0, ", "lr": "(0, ", "budget": "(0, ", "partitions": "[1, ", "steps": "[1, ",
      "similarity": "[0, inf)"}, {}),
    ("federation.manipulation.pixels:GradientSign", {"size": "(0, inf)"}, {}),
    ("federation.recommender.model:NeuralCF",
     {"width": "[1, ", "epochs": "[1, ", "lr": "(0, ", "l1": "[0, "}, {}),
    ("federation.search.pairwise:Pairwise", {"lr": "(0, "}, {"query": np.zeros(2, np.int64)}),
    ("federation.search.pointwise:Pointwise", {"lr": "(0, ", "epochs": "[1, "}, {}),
    ("studies.harden.federated_limits:FederationLimits",
     {"class_shares": "[0, 2]", "which_client": "[0, 1]", "interactions": "[0, 1]"}, {}),
)  # fmt: skip
"""A class, limits of its numbers as intervals, and what else it needs."""

ROWS = [
    pytest.param(place, name, limits, more, id=f"{place.split(':')[1]}-{name}{limits}")
    for place, fields, more in TABLE
    for name, limits in fields.items()
]


@pytest.mark.parametrize(("place", "name", "limits", "more"), ROWS)
def test_limits(place: str, name: str, limits: str, more: dict[str, Any]) -> None:
    module, _, kind = place.partition(":")
    try:
        made = getattr(importlib.import_module(f"divulge.{module}"), kind)
    except ImportError as error:
        pytest.skip(str(error))
    opens, low, high, closes = re.fullmatch(r"([\[(])(.+), (.*?)([\])]?)", limits).groups()  # type: ignore[union-attr]
    whole = "int" in str(made.__annotations__[name]) or "Count" in str(made.__annotations__[name])
    accepted, refused = [], []
    for end, inclusive, beyond in ((low, opens == "[", -math.inf), (high, closes == "]", math.inf)):
        if not end:
            continue
        limit: Any = int(end) if whole else float(end)
        step = 1 if beyond > 0 else -1
        further = limit + step if whole else float(np.nextafter(limit, beyond))
        nearer = limit - step if whole else float(np.nextafter(limit, -beyond))
        accepted.append(limit if inclusive else nearer)
        refused.append(further if inclusive else limit)
    default = made.__dataclass_fields__[name].default
    if default not in (dataclasses.MISSING, None):
        accepted.append(default)
    for value in accepted:
        assert getattr(made(**(more | {name: value})), name) == value
    for value in refused:
        with pytest.raises(DivulgeError):
            made(**(more | {name: value}))
