"""Quality: which client trained on a record, on cached stand-ins for NIST's challenge."""

import io
import lzma

import numpy as np

from benchmarks import data
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
from leakscope.federation.apart import Apart
from leakscope.metrics import assignment, membership
from leakscope.randomness import stream
from leakscope.targets.answers import to_probabilities
from leakscope.targets.table import TableTarget

SUMMARY = "accuracy of assignment on stand-ins for NIST's challenge, and the colluding client's TPR"

PACKS = (
    *((name, "cnn") for name in ("rep0", "rep1", "rep2", "real0")),
    *((name, tier) for tier in ("dpcnn200", "dpcnn10") for name in ("rep0", "rep1", "rep2")),
)
"""Name and privacy tier. The genotypes of rep0 to rep2 are SYNTHETIC."""


def pack(name: str, tier: str) -> Apart:
    """Answers and truth of one stand-in pack at one privacy tier.

    Raises:
        MissingData: it is not there.
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


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print accuracies pack by pack, and what is seen of the colluding client's 13 members."""
    from benchmarks.which_client import ATTACKS, labelled, measured

    for name, tier in PACKS[:1] if quick else PACKS:
        game = pack(name, tier)
        print(f"{name} {tier}")
        for attack, settings in ATTACKS:
            found = measured(game, attack, settings, seed=0)
            low, high = found[0].low, found[0].high
            print(
                f"  {labelled(attack, settings):22}{found[0].value:.3f} ({low:.3f} to {high:.3f}) "
                f"recall {found[1].value:.3f} specificity {found[2].value:.3f}"
            )
        _print_colluder(game)


def _print_colluder(game: Apart) -> None:
    """Area and rates on all records of the client whose membership is known."""
    view = game.challenge.view
    guesses: dict[str, Judged] = {
        f"stacking {protocol}": Stacking(protocol).on_colluder(view, stream(0, protocol))
        for protocol in ("published", "crossfit")
    }
    own = view.collusion.client
    asked = view.relevant[own].joined(view.external[own]).joined(view.records)
    loss = Threshold("loss")(ModelView(view.targets[own], asked), stream(0, "loss")).score
    guesses["loss"] = Judged(loss, guesses["stacking published"].member)
    for label, (score, member) in guesses.items():
        rates = [membership.tpr_at_fpr(score, member, fpr) for fpr in (0.01, 0.03)]
        shown = ", ".join(f"{r.value:.2f} ({r.low:.2f} to {r.high:.2f})" for r in rates)
        auc = membership.auc(score, member).value
        print(f"  colluder, {label:22}AUC {auc:.3f}, TPR at 1 and 3 % FPR {shown}")
    drawn = assignment.best_constant(game.challenge.truth, view.collusion.records)
    print(f"  best constant answer {drawn.value:.3f}")
