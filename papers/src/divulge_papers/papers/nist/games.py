"""Load federations of packs, or train them: the games that the tables play."""

import io
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from divulge.core import (
    Assignment,
    Collusion,
    FederationView,
    Game,
    Need,
    Records,
)
from divulge.federation.local_models import AssignmentGame
from divulge.targets.outputs import to_logits, to_probabilities
from divulge.targets.recorded import TableTarget
from divulge_papers import data
from divulge_papers.papers.nist.federations import FederationScale, GenotypeOrigin
from divulge_papers.table import Size

PACKS: Mapping[GenotypeOrigin, tuple[str, ...]] = {
    "SoyNAM": ("real0",),
    "synthetic": ("rep0", "rep1", "rep2"),
    "full width": (),
}


class Tier(NamedTuple):
    """One of three privacy tiers."""

    code: str
    """Name of the tier in the packs."""
    epsilon: float | None
    """Privacy budget of each client; None is training without privacy."""

    def packs(self, origin: GenotypeOrigin) -> tuple[str, ...]:
        """Names of the packs that have this tier."""
        return PACKS[origin] if self.epsilon is None or origin == "synthetic" else ()


TIERS: Mapping[str, Tier] = {
    "no DP": Tier("cnn", None),
    "ε = 200": Tier("dpcnn200", 200.0),
    "ε = 10": Tier("dpcnn10", 10.0),
}


ORIGINS: tuple[GenotypeOrigin, ...] = tuple(origin for origin, packs in PACKS.items() if packs)
"""Origins of federations with replicates."""


REPLICATE_GROUPS: tuple[tuple[GenotypeOrigin, str], ...] = tuple(
    (origin, tier) for origin in ORIGINS for tier in TIERS
)
"""Groups of replicate federations by origin and tier; each group has rows of its own."""


NO_PRIVACY_SCALE = FederationScale(place_step=16, epochs=100)
"""Scale of training without privacy: narrower networks would hide their members."""


FULL_WIDTH_SCALES: Mapping[Size, FederationScale] = {
    "small": FederationScale(64, 20),
    "paper": FederationScale(1, 100),
}
"""Scale of the federation with all columns of the challenge, which size paper has once."""


PRIVATE_SCALES: Mapping[Size, FederationScale] = {
    "small": FederationScale(64, 50),
    "paper": NO_PRIVACY_SCALE,
}


def load_pack(name: str, tier: str) -> AssignmentGame:
    """Load predictions and truth of one pack at one tier: ``cnn``, ``dpcnn200`` or ``dpcnn10``.

    Raises:
        DataError: it is not there.
    """
    raw = data.data_file(f"nist-soybean/logits_{name}.npz.xz").read_bytes()
    with np.load(io.BytesIO(lzma.decompress(raw)), allow_pickle=False) as arrays:
        own = {key.partition("_")[2]: arrays[key] for key in arrays if key.startswith(tier + "_")}
    y = own["y"].astype(np.int64)
    ranges = zip(own["sets"], own["start"], own["stop"], strict=True)
    rows = {str(name): np.arange(start, stop) for name, start, stop in ranges}
    sets = {name: Records(chosen, y[chosen]) for name, chosen in rows.items()}
    truth = own["truth_challenge"].astype(np.int64) - 1
    members = tuple(own[f"truth_rel{k}"].astype(bool) for k in range(1, 5))
    offers = Need.PROBABILITIES | Need.HARD_LABELS
    view = FederationView(
        tuple(
            TableTarget(to_probabilities(z, "logits", len(y)), offers, to_logits(z, len(y)))
            for z in own["logits"]
        ),
        sets["cha"],
        tuple(sets[f"rel{k}"] for k in range(1, 5)),
        tuple(sets[f"ext{k}"] for k in range(1, 5)),
        Collusion(3, members[3], truth == 3),
    )
    return AssignmentGame(Game(view, Assignment(truth)), members)


def load_game(
    seed: int, size: Size, folder: Path, origin: GenotypeOrigin, tier: str
) -> AssignmentGame:
    """Load a pack of the tier or, for seeds beyond the packs, train a federation.

    Raises:
        DataError: data are not there.
        StoreError: the folder cannot be used.
    """
    wanted = TIERS[tier]
    packs = wanted.packs(origin)
    if seed < len(packs):
        return load_pack(packs[seed], wanted.code)
    from divulge_papers.papers.nist import federations  # PyTorch, where packs are not enough

    scale = NO_PRIVACY_SCALE if wanted.epsilon is None else PRIVATE_SCALES[size]
    if origin == "full width":
        scale = FULL_WIDTH_SCALES[size]
    return federations.train_federation(seed, origin, wanted.epsilon, scale, folder)
