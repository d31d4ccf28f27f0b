"""Define nist-stacking's tables 2 and 3: assignment of candidates, and the colluder's members."""

from divulge._util.json import JSON
from divulge.reproduce.papers.nist.study import (
    DIFFERS,
    RATES,
    REPLICATE_GROUPS,
    SEEDS,
    TIERS,
    UNITS,
)
from divulge.reproduce.table import Row, Table

TABLE_2_PAPER = {
    "stacking published": (0.5342, 0.3836, 0.2466),
    "confidence-rule": (0.3014, 0.2055, 0.2603),
}


ATTACKS: dict[str, tuple[str, dict[str, JSON]]] = {
    "nobody (best constant answer)": ("nobody", {}),
    "confidence-rule": ("confidence-rule", {}),
    "variance-lira": ("variance-lira", {}),
    "stacking published": ("stacking", {"protocol": "published"}),
    "stacking published, centred": ("stacking", {"protocol": "published", "centred": True}),
    "stacking crossfit": ("stacking", {"protocol": "crossfit"}),
    "cluster-lira": ("cluster-lira", {}),
}


_SHARES = ("accuracy", "recall", "specificity", *RATES)
"""Columns whose value the numbers of candidates fix for a constant guess, in every federation."""

_PAIRS = (
    ("stacking published", "nobody (best constant answer)"),
    ("stacking published, centred", "stacking published"),
    ("stacking crossfit", "stacking published"),
    ("cluster-lira", "stacking published"),
    ("cluster-lira", "confidence-rule"),
)


TABLE_2 = Table(
    title="Stacking: which client trained on each of 73 candidates",
    source="nist-stacking 2026, table 2 (arXiv 2604.12737)",
    data=("nist-soybean", "soynam"),
    columns=(*_SHARES, "p"),
    rows=tuple(
        Row(
            f"{origin}, {tier}: {label}",
            {"origin": origin, "tier": tier, "attack": attack, "settings": settings},
            {"accuracy": TABLE_2_PAPER[label][list(TIERS).index(tier)]}
            if label in TABLE_2_PAPER
            else {},
            _SHARES if attack == "nobody" else (),
        )
        for origin, tier in REPLICATE_GROUPS
        for label, (attack, settings) in ATTACKS.items()
    ),
    work="divulge.reproduce.papers.nist.study:measure_assignment",
    units=UNITS,
    nested=False,
    kinds={**dict.fromkeys(_SHARES, "clustered"), "p": "p-value"},
    pairs=tuple(
        (f"{origin}, {tier}: {one}", f"{origin}, {tier}: {other}")
        for origin, tier in REPLICATE_GROUPS
        for one, other in _PAIRS
    ),
    seeds=SEEDS,
    minutes={"small": 7, "paper": 38},
    differs=DIFFERS,
    keeps=True,
)

TABLE_3_PAPER = {
    ("no DP", "published"): {"TPR at 1 %": 0.4615, "TPR at 3 %": 1.0},
    ("no DP", None): {"TPR at 1 %": 0.9231, "TPR at 3 %": 1.0},
    ("ε = 200", "published"): {"TPR at 1 %": 0.3077, "TPR at 3 %": 0.3846},
    ("ε = 200", None): {"TPR at 1 %": 0.0, "TPR at 3 %": 0.0769},
    ("ε = 10", "published"): {"TPR at 1 %": 0.0, "TPR at 3 %": 0.0},
    ("ε = 10", None): {"TPR at 1 %": 0.0, "TPR at 3 %": 0.0},
}


TABLE_3 = Table(
    title="Stacking: TPR on 13 members and 103 others of the colluding client",
    source="nist-stacking 2026, table 3 (arXiv 2604.12737)",
    data=("nist-soybean", "soynam"),
    columns=("AUC", *RATES),
    rows=tuple(
        Row(
            f"{origin}, {tier}: {'loss (LiRA)' if protocol is None else f'stacking {protocol}'}",
            {"origin": origin, "tier": tier, "protocol": protocol},
            TABLE_3_PAPER.get((tier, protocol), {}),
        )
        for origin, tier in REPLICATE_GROUPS
        for protocol in ("published", "crossfit", None)
    ),
    work="divulge.reproduce.papers.nist.study:measure_on_colluder",
    units=UNITS,
    nested=False,
    kinds=dict.fromkeys(("AUC", *RATES), "clustered"),
    pairs=tuple(
        (f"{origin}, {tier}: {one}", f"{origin}, {tier}: {other}")
        for origin, tier in REPLICATE_GROUPS
        for one, other in (
            ("stacking crossfit", "stacking published"),
            ("stacking published", "loss (LiRA)"),
        )
    ),
    seeds=SEEDS,
    minutes={"small": 5, "paper": 30},
    differs=DIFFERS,
    keeps=True,
)
