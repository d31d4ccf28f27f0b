"""nist-stacking's table 2: which client trained on each candidate?"""

from typing import Any

from divulge.experiments.nist_packs import DIFFERS, GROUPS, RATES, SEEDS, TIERS
from divulge.experiments.table import Row, Table

PAPER = {
    "stacking published": (0.5342, 0.3836, 0.2466),
    "confidence-rule": (0.3014, 0.2055, 0.2603),
}

ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "nobody (best constant answer)": ("nobody", {}),
    "confidence-rule": ("confidence-rule", {}),
    "variance-lira": ("variance-lira", {}),
    "stacking published": ("stacking", {"protocol": "published"}),
    "stacking crossfit": ("stacking", {"protocol": "crossfit"}),
    "cluster-lira": ("cluster-lira", {}),
}

TABLE = Table(
    title="Stacking: which client trained on each of 73 candidates",
    source="nist-stacking 2026, table 2 (arXiv 2604.12737)",
    columns=("accuracy", "recall", "specificity", *RATES, "p"),
    rows=tuple(
        Row(
            f"{origin}, {tier}: {label}",
            {"origin": origin, "tier": tier, "attack": attack, "settings": settings},
            {"accuracy": PAPER[label][list(TIERS).index(tier)]} if label in PAPER else {},
        )
        for origin, tier in GROUPS
        for label, (attack, settings) in ATTACKS.items()
    ),
    work="divulge.experiments.nist_packs:assigned",
    seeds=SEEDS,
    minutes={"small": 7, "medium": 16, "full": 38},
    differs=DIFFERS,
    keeps=True,
)
