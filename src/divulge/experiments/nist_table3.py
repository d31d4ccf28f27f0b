"""nist-stacking's table 3: the colluding client's members at low false-positive rates."""

from divulge.experiments.nist_packs import DIFFERS, GROUPS, RATES, SEEDS, UNITS
from divulge.experiments.table import Row, Table

PAPER = {
    ("no DP", "published"): {"TPR at 1 %": 0.4615, "TPR at 3 %": 1.0},
    ("no DP", None): {"TPR at 1 %": 0.9231, "TPR at 3 %": 1.0},
    ("ε = 200", "published"): {"TPR at 1 %": 0.3077, "TPR at 3 %": 0.3846},
    ("ε = 200", None): {"TPR at 1 %": 0.0, "TPR at 3 %": 0.0769},
    ("ε = 10", "published"): {"TPR at 1 %": 0.0, "TPR at 3 %": 0.0},
    ("ε = 10", None): {"TPR at 1 %": 0.0, "TPR at 3 %": 0.0},
}

TABLE = Table(
    title="Stacking: TPR on 13 members and 103 others of the colluding client",
    source="nist-stacking 2026, table 3 (arXiv 2604.12737)",
    columns=("AUC", *RATES),
    rows=tuple(
        Row(
            f"{origin}, {tier}: {'loss (LiRA)' if protocol is None else f'stacking {protocol}'}",
            {"origin": origin, "tier": tier, "protocol": protocol},
            PAPER.get((tier, protocol), {}),
        )
        for origin, tier in GROUPS
        for protocol in ("published", "crossfit", None)
    ),
    work="divulge.experiments.nist_packs:on_colluder",
    units=UNITS,
    nested=False,
    kinds=dict.fromkeys(("AUC", *RATES), "clustered"),
    pairs=tuple(
        (f"{origin}, {tier}: {one}", f"{origin}, {tier}: {other}")
        for origin, tier in GROUPS
        for one, other in (
            ("stacking crossfit", "stacking published"),
            ("stacking published", "loss (LiRA)"),
        )
    ),
    seeds=SEEDS,
    minutes={"small": 5, "medium": 13, "full": 30},
    differs=DIFFERS,
    keeps=True,
)
