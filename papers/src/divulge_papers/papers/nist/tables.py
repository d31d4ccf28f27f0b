"""Define nist-stacking's tables 2 and 3, its figures 3, 5 and 6, and its cross-validation."""

from collections.abc import Iterable

from divulge._util.json import JSON
from divulge_papers.papers.nist.games import ORIGINS, REPLICATE_GROUPS, TIERS
from divulge_papers.papers.nist.losses import QUANTILES
from divulge_papers.papers.nist.study import DIFFERS, RATES, SEEDS, UNITS
from divulge_papers.papers.nist.utility import ROUNDS, SHOWN
from divulge_papers.table import Row, Table

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


def _assignment_rows(
    origin: str, labels: Iterable[str], shares: tuple[str, ...] = _SHARES
) -> tuple[Row, ...]:
    """One row for each tier and attack, with the published accuracy where there is one.

    Args:
        origin: origin of the genotypes.
        labels: names of the attacks.
        shares: columns whose value is the same for a constant guess in every federation.
    """
    return tuple(
        Row(
            f"{origin}, {tier}: {label}",
            {"origin": origin, "tier": tier, "attack": attack, "settings": settings},
            {"accuracy": TABLE_2_PAPER[label][number]} if label in TABLE_2_PAPER else {},
            shares if attack == "nobody" else (),
        )
        for number, tier in enumerate(TIERS)
        for label, (attack, settings) in ((label, ATTACKS[label]) for label in labels)
    )


TABLE_2 = Table(
    title="Stacking: which client trained on each of 73 candidates",
    source="nist-stacking 2026, table 2 (arXiv 2604.12737)",
    data=("nist-soybean", "soynam"),
    columns=(*_SHARES, "p"),
    rows=tuple(row for origin in ORIGINS for row in _assignment_rows(origin, ATTACKS)),
    work="divulge_papers.papers.nist.study:measure_assignment",
    units=UNITS,
    nested=False,
    kinds={**dict.fromkeys(_SHARES, "clustered"), "p": "p-value"},
    pairs=tuple(
        (f"{origin}, {tier}: {first}", f"{origin}, {tier}: {second}")
        for origin, tier in REPLICATE_GROUPS
        for first, second in _PAIRS
    ),
    seeds=SEEDS,
    minutes={"small": 4, "paper": 45},
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
    work="divulge_papers.papers.nist.study:measure_on_colluder",
    units=UNITS,
    nested=False,
    kinds=dict.fromkeys(("AUC", *RATES), "clustered"),
    pairs=tuple(
        (f"{origin}, {tier}: {first}", f"{origin}, {tier}: {second}")
        for origin, tier in REPLICATE_GROUPS
        for first, second in (
            ("stacking crossfit", "stacking published"),
            ("stacking published", "loss (LiRA)"),
        )
    ),
    seeds=SEEDS,
    minutes={"small": 3, "paper": 30},
    differs=DIFFERS,
    keeps=True,
)


FIGURE_3 = Table(
    title="Losses of members and of others by privacy tier",
    source="nist-stacking 2026, figure 3, a sketch without figures (arXiv 2604.12737)",
    data=("nist-soybean", "soynam"),
    columns=("mean", *QUANTILES),
    rows=tuple(
        Row(
            f"{origin}, {tier}: {label}",
            {"origin": origin, "tier": tier, "member": label == "members"},
        )
        for origin, tier in REPLICATE_GROUPS
        for label in ("members", "others")
    ),
    drawn=tuple(f"SoyNAM, {tier}: {label}" for tier in TIERS for label in ("members", "others")),
    measures="Loss, in nats, that a share of records is below",
    work="divulge_papers.papers.nist.losses:measure_losses",
    units=UNITS,
    nested=False,
    kinds=dict.fromkeys(("mean", *QUANTILES), "normal"),
    largest=dict.fromkeys(("mean", *QUANTILES), 100.0),
    pairs=tuple(
        (f"{origin}, {tier}: others", f"{origin}, {tier}: members")
        for origin, tier in REPLICATE_GROUPS
    ),
    seeds=SEEDS,
    minutes={"small": 1, "paper": 10},
    differs=DIFFERS,
    keeps=True,
)

_FIGURE_5 = (
    "stacking published",
    "stacking published, centred",
    "confidence-rule",
    "nobody (best constant answer)",
    "cluster-lira",
)

FIGURE_5 = Table(
    title="Accuracy of attacks by privacy tier",
    source="nist-stacking 2026, figure 5 (arXiv 2604.12737), without six other teams' attacks",
    data=("nist-soybean", "soynam"),
    columns=("accuracy",),
    rows=_assignment_rows("SoyNAM", _FIGURE_5, ("accuracy",)),
    work=TABLE_2.work,
    units=UNITS,
    nested=False,
    kinds={"accuracy": "clustered"},
    seeds=SEEDS,
    minutes={"small": 2, "paper": 15},
    differs={size: f"{text} The cells are those of nist-table2." for size, text in DIFFERS.items()},
    keeps=True,
)

VALIDATION = Table(
    title="Stacking: 10-fold cross-validation on the colluding client, three times",
    source="nist-stacking 2026, section 4 (arXiv 2604.12737), of a tier that it leaves open",
    data=("nist-soybean", "soynam"),
    columns=("accuracy",),
    rows=tuple(
        Row(
            f"{origin}, {tier}: {label}",
            {"origin": origin, "tier": tier, "guess": label == "stacking published"},
            {"accuracy": 0.908} if label == "stacking published" else {},
        )
        for origin, tier in REPLICATE_GROUPS
        for label in ("stacking published", "no member (best constant answer)")
    ),
    work="divulge_papers.papers.nist.study:measure_validation",
    units=UNITS,
    nested=False,
    kinds={"accuracy": "clustered"},
    pairs=tuple(
        (
            f"{origin}, {tier}: stacking published",
            f"{origin}, {tier}: no member (best constant answer)",
        )
        for origin, tier in REPLICATE_GROUPS
    ),
    seeds=SEEDS,
    minutes={"small": 3, "paper": 12},
    differs=DIFFERS,
    keeps=True,
)

_WIDE = tuple(label for label in ATTACKS if label != "variance-lira")

FULL_WIDTH = Table(
    title="Stacking at the challenge's width: one federation of 125,766 columns",
    source="nist-stacking 2026, table 2 (arXiv 2604.12737)",
    data=("nist-soybean",),
    columns=("accuracy", "recall", "specificity"),
    rows=_assignment_rows("full width", _WIDE, _SHARES[:3]),
    work=TABLE_2.work,
    units="candidates of one federation",
    pairs=tuple(
        (f"full width, {tier}: {first}", f"full width, {tier}: {second}")
        for tier in TIERS
        for first, second in _PAIRS
        if first in _WIDE and second in _WIDE
    ),
    seeds={"small": 1, "paper": 1},
    minutes={"small": 2, "paper": 150},
    differs={
        "small": "One federation on SYNTHETIC genotypes, thinned to some 1,970 columns, with 20 "
        "epochs: a trial, not a figure.",
        "paper": "One federation on SYNTHETIC genotypes with the challenge's 125,766 columns and "
        "shares of classes, its network, 100 epochs and DP-SGD. How many candidates are outsiders "
        "(44 of 73) is inferred from published sizes.",
    },
    keeps=True,
)

_FIGURE_6_PAPER = {
    (None, 1): 0.93, (None, 5): 0.93, (None, 20): 0.93, (200.0, 20): 0.798,
}  # fmt: skip
"""Accuracy after the last round. At ε = 200 it is .83 to .85 with 1 and 5 local epochs, and at
ε = 10 it is .16 to .47: which is whose the text does not say."""

_FIGURE_6_DIFFERS = (
    "542 lines of six families of SoyNAM, whose four classes are families in the challenge's "
    "shares, in place of its 542 accessions and their seed coats. Clients, rounds, the network, "
    "clipping to 2 and δ are the paper's. Batches of 15 are ours: the paper states a batch divisor "
    "of 15 for the models that it attacks, which in the challenge's training is batches of 775 / "
    "15 = 51, as in our other tables, and nothing for this federation. With DP the learning rate "
    "of 0.003 is scaled by the root of the number of columns. Noise is for all rounds together, by "
    "the privacy-loss distribution. "
)

FIGURE_6 = Table(
    title="What privacy costs a federation in accuracy, by round",
    source="nist-stacking 2026, section 4.2 and figure 6 (arXiv 2604.12737)",
    data=("nist-soybean", "soynam"),
    columns=tuple(SHOWN),
    rows=(
        *(
            Row(
                f"{tier}, E = {epochs}",
                {"epsilon": TIERS[tier].epsilon, "epochs": epochs},
                {f"{ROUNDS} rounds": _FIGURE_6_PAPER[TIERS[tier].epsilon, epochs]}
                if (TIERS[tier].epsilon, epochs) in _FIGURE_6_PAPER
                else {},
                weight=float(epochs),
            )
            for epochs in (1, 5, 20)
            for tier in TIERS
        ),
        *(
            Row(
                f"125,766 columns, {tier}, E = 1",
                {"epsilon": TIERS[tier].epsilon, "epochs": 1, "full_width": True},
                weight=10.0,  # about ten times as many columns
            )
            for tier in TIERS
        ),
    ),
    drawn=tuple(f"{tier}, E = {epochs}" for epochs in (1, 20) for tier in TIERS),
    measures="Accuracy on held-out records",
    work="divulge_papers.papers.nist.utility:measure_utility",
    units="held-out records",
    seeds={"small": 1, "paper": 1},
    minutes={"small": 1, "paper": 240},
    differs={
        "small": f"{_FIGURE_6_DIFFERS}199 columns, and one local epoch alone.",
        "paper": f"{_FIGURE_6_DIFFERS}All 4,240 places, some 12,700 columns; three rows on "
        "SYNTHETIC genotypes with 125,766.",
    },
)
