"""Stand-ins for NIST's challenge, whose models and truth are not to be had: cached answers.

Each pack holds what four clients' networks say of 542 records, at three privacy tiers, with the
truth. The genotypes of rep0 to rep2 are SYNTHETIC; those of real0 are SoyNAM's, with classes
derived from them, and without a private tier.
"""

import io
import lzma
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from leakscope import catalog
from leakscope.attacks.stacking import Judged, Stacking
from leakscope.attacks.threshold import Threshold
from leakscope.core import (
    Assignment,
    Challenge,
    Collusion,
    FederationView,
    ModelView,
    Need,
    Records,
)
from leakscope.experiments import data
from leakscope.experiments.table import Size
from leakscope.federation.apart import Apart
from leakscope.metrics import assignment, membership
from leakscope.randomness import stream
from leakscope.targets.answers import to_probabilities
from leakscope.targets.table import TableTarget

PACKS = ("rep0", "rep1", "rep2", "real0")

TIERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "no DP": ("cnn", PACKS),
    "ε = 200": ("dpcnn200", PACKS[:3]),
    "ε = 10": ("dpcnn10", PACKS[:3]),
}
"""Name to tier, and the packs that have it."""

SEEDS: Mapping[Size, int] = {"small": 1, "medium": 1, "full": 1}

DIFFERS = (
    "The challenge's models and truth are not public: these are stand-ins of the same shape, "
    "thinned to 3,932 or 6,360 columns; three on SYNTHETIC genotypes and, without DP, one on real "
    "ones of SoyNAM. How many candidates are outsiders (44 of 73) is inferred from published "
    "sizes. Fewer than five federations a tier."
)


def pack(name: str, tier: str) -> Apart:
    """Answers and truth of one pack at one tier: ``cnn``, ``dpcnn200`` or ``dpcnn10``.

    Raises:
        DataError: it is not there.
    """
    raw = data.file(f"nist-soybean/logits_{name}.npz.xz").read_bytes()
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
        tuple(TableTarget(to_probabilities(z, "logits", len(y)), offers) for z in own["logits"]),
        sets["cha"],
        tuple(sets[f"rel{k}"] for k in range(1, 5)),
        tuple(sets[f"ext{k}"] for k in range(1, 5)),
        Collusion(3, members[3], truth == 3),
    )
    return Apart(Challenge(view, Assignment(truth)), members)


def assigned(
    seed: int, size: Size, *, tier: str, attack: str, settings: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Accuracy, recall of members, specificity of outsiders, and p of a permutation; one a pack."""
    del size
    code, names = TIERS[tier]
    metrics = ("accuracy", "recall", "specificity")
    found: dict[str, list[float]] = {name: [] for name in (*metrics, "p")}
    for name in names:
        game = pack(name, code)
        guess = catalog.federation_attack(attack, **settings)(
            game.challenge.view, stream(seed, "nist", name, attack)
        )
        truth, known = game.challenge.truth, game.challenge.view.collusion.records
        for metric in metrics:
            found[metric].append(getattr(assignment, metric)(guess, truth).value)
        rng = stream(seed, "nist", name, "permutations")
        found["p"].append(assignment.permutation_p(guess, truth, known, rng))
    return found


def on_colluder(
    seed: int, size: Size, *, tier: str, protocol: Literal["published", "crossfit"] | None
) -> dict[str, list[float]]:
    """AUC and TPR on the client whose membership is known, one a pack; of the loss without one."""
    del size
    code, names = TIERS[tier]
    found: dict[str, list[float]] = {"AUC": [], "TPR at 1 %": [], "TPR at 3 %": []}
    for name in names:
        view = pack(name, code).challenge.view
        judged = _by_loss(view)
        if protocol is not None:
            judged = Stacking(protocol).on_colluder(view, stream(seed, "nist", name, protocol))
        found["AUC"].append(membership.auc(judged.score, judged.member).value)
        for column, fpr in (("TPR at 1 %", 0.01), ("TPR at 3 %", 0.03)):
            rate = membership.tpr_at_fpr(judged.score, judged.member, fpr)
            found[column].append(rate.value)
    return found


def _by_loss(view: FederationView) -> Judged:
    """The published LiRA: within one client it ranks as the loss does."""
    known = view.collusion
    k = known.client
    asked = view.relevant[k].joined(view.external[k]).joined(view.records)
    none = np.zeros(len(view.external[k]), bool)
    score = Threshold("loss")(ModelView(view.targets[k], asked), stream(0, "loss")).score
    return Judged(score, np.concatenate([known.relevant, none, known.records]))
