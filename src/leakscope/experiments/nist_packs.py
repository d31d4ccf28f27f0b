"""Stand-ins for NIST's challenge, whose models and truth are not to be had: cached answers.

Each pack holds what four clients' networks say of 542 records, at three privacy tiers, with the
truth. The genotypes of rep0 to rep2 are SYNTHETIC; those of real0 are SoyNAM's, with classes
derived from them, and without a private tier.
"""

import io
import lzma
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

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


class Tier(NamedTuple):
    """One of three."""

    code: str
    """In the packs."""
    epsilon: float | None
    packs: tuple[str, ...]
    """That have it."""


TIERS: Mapping[str, Tier] = {
    "no DP": Tier("cnn", None, PACKS),
    "ε = 200": Tier("dpcnn200", 200.0, PACKS[:3]),
    "ε = 10": Tier("dpcnn10", 10.0, PACKS[:3]),
}

SEEDS: Mapping[Size, int] = {"small": 1, "medium": 3, "full": 6}
"""The first takes all packs; each other trains one federation more."""

RATES: Mapping[str, float] = {"TPR at 1 %": 0.01, "TPR at 3 %": 0.03}
"""Column to false-positive rate."""

_STAND_INS = (
    "The challenge's models and truth are not public: these are stand-ins of the same shape, "
    "thinned to 3,932 or 6,360 columns; three on SYNTHETIC genotypes and, without DP, one on real "
    "ones of SoyNAM. How many candidates are outsiders (44 of 73) is inferred from published "
    "sizes. TPR: of all members of all federations, at a threshold of each federation, which the "
    "interval (Clopper-Pearson) takes as given."
)

DIFFERS: Mapping[Size, str] = {
    "small": f"{_STAND_INS} Four, three and three federations.",
    "medium": f"{_STAND_INS} Two federations a tier are trained on real genotypes of SoyNAM, "
    "thinned to some 800 columns.",
    "full": f"{_STAND_INS} Five federations a tier are trained on real genotypes of SoyNAM, "
    "thinned to some 800 columns.",
}


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


def games(seed: int, tier: str) -> list[Apart]:
    """All packs of a tier, or for seeds above 0 one federation that is trained with it.

    Raises:
        DataError: data are not there.
    """
    code, epsilon, names = TIERS[tier]
    if seed == 0:
        return [pack(name, code) for name in names]
    from leakscope.experiments import genomes

    return [genomes.played(seed, epsilon)]


def assigned(
    seed: int, size: Size, *, tier: str, attack: str, settings: Mapping[str, Any]
) -> dict[str, list[float]]:
    """How well candidates are assigned, one value a federation; TPR, one a member."""
    del size
    found: dict[str, list[float]] = {name: [] for name in ("accuracy", "recall", "specificity")}
    found |= {name: [] for name in (*RATES, "p")}
    for k, game in enumerate(games(seed, tier)):
        guess = catalog.federation_attack(attack, **settings)(
            game.challenge.view, stream(seed, "nist", k, attack)
        )
        truth, known = game.challenge.truth, game.challenge.view.collusion
        for metric in ("accuracy", "recall", "specificity"):
            found[metric].append(getattr(assignment, metric)(guess, truth).value)
        _add_rates(found, *assignment.pairs(guess, truth, known))
        rng = stream(seed, "nist", k, "permutations")
        found["p"].append(assignment.permutation_p(guess, truth, known.records, rng))
    return found


def on_colluder(
    seed: int, size: Size, *, tier: str, protocol: Literal["published", "crossfit"] | None
) -> dict[str, list[float]]:
    """AUC, one a federation, and TPR, one a member, on the client whose membership is known.

    Without a protocol, of the loss.
    """
    del size
    found: dict[str, list[float]] = {name: [] for name in ("AUC", *RATES)}
    for k, game in enumerate(games(seed, tier)):
        view = game.challenge.view
        judged = _by_loss(view)
        if protocol is not None:
            judged = Stacking(protocol).on_colluder(view, stream(seed, "nist", k, protocol))
        found["AUC"].append(membership.auc(judged.score, judged.member).value)
        _add_rates(found, *judged)
    return found


def _add_rates(found: dict[str, list[float]], score: np.ndarray, member: np.ndarray) -> None:
    """For each member a 1 if it is recognised, else a 0, so that federations can be pooled."""
    members = int(member.sum())
    for column, fpr in RATES.items():
        rate = membership.tpr_at_fpr(score, member, fpr).value
        recognised = round(rate * members)
        found[column] += [1.0] * recognised + [0.0] * (members - recognised)


def _by_loss(view: FederationView) -> Judged:
    """The published LiRA: within one client it ranks as the loss does."""
    known = view.collusion
    k = known.client
    asked = view.relevant[k].joined(view.external[k]).joined(view.records)
    none = np.zeros(len(view.external[k]), bool)
    score = Threshold("loss")(ModelView(view.targets[k], asked), stream(0, "loss")).score
    return Judged(score, np.concatenate([known.relevant, none, known.records]))
