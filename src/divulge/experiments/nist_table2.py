"""nist-stacking's table 2: which client trained on each candidate?"""

from typing import Any

from divulge.experiments.nist_packs import DIFFERS, GROUPS, RATES, SEEDS, TIERS, UNITS
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

_SHARES = ("accuracy", "recall", "specificity", *RATES)
"""Of the constant answer they are settled by how many candidates are whose, alike everywhere."""
_PAIRS = (
    ("stacking published", "nobody (best constant answer)"),
    ("stacking crossfit", "stacking published"),
    ("cluster-lira", "stacking published"),
    ("cluster-lira", "confidence-rule"),
)

TABLE = Table(
    title="Stacking: which client trained on each of 73 candidates",
    source="nist-stacking 2026, table 2 (arXiv 2604.12737)",
    columns=(*_SHARES, "p"),
    rows=tuple(
        Row(
            f"{origin}, {tier}: {label}",
            {"origin": origin, "tier": tier, "attack": attack, "settings": settings},
            {"accuracy": PAPER[label][list(TIERS).index(tier)]} if label in PAPER else {},
            _SHARES if attack == "nobody" else (),
        )
        for origin, tier in GROUPS
        for label, (attack, settings) in ATTACKS.items()
    ),
    work="divulge.experiments.nist_packs:assigned",
    units=UNITS,
    nested=False,
    kinds={**dict.fromkeys(_SHARES, "clustered"), "p": "p-value"},
    pairs=tuple(
        (f"{origin}, {tier}: {one}", f"{origin}, {tier}: {other}")
        for origin, tier in GROUPS
        for one, other in _PAIRS
    ),
    seeds=SEEDS,
    minutes={"small": 7, "medium": 16, "full": 38},
    differs=DIFFERS,
    keeps=True,
)
