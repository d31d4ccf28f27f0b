"""What the number of columns does to nist-stacking, and what over-fitting does to its loss."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.means import format_mean
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.attacks.membership.threshold import Threshold
from divulge.core import FederationView
from divulge.metrics import membership
from divulge_papers.papers.nist import study
from divulge_papers.papers.nist.federations import FederationScale, train_federation

SUMMARY = "nist-stacking on one federation of SoyNAM by its number of columns, without DP"
OVERFITTED = "the loss on the colluding client by the number of epochs, without DP"

STEPS = {"some 800 columns": 16, "some 12,700 columns": 1}
"""Step between the places that are used."""

EPOCHS, ATTACK_SEEDS, FEDERATIONS = (25, 100, 400), 5, 3
FIRST = 1
"""First seed of federations that are trained: the one before is a pack."""


def run(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print accuracies, each the mean over the attack's seeds, with Student's interval over them.

    All attacks name the client of the same 73 candidates, whose records and clients are the same
    for every number of columns.
    """
    print("| columns | attack | accuracy by seed of the attack | mean (95 %) |\n|---|---|---|---|")
    epochs = 5 if quick else 100
    with tempfile.TemporaryDirectory() as folder:
        for name, step in STEPS.items():
            scale = FederationScale(64 if quick else step, epochs)
            game = train_federation(FIRST, "SoyNAM", None, scale, Path(folder)).challenge
            for attack, settings in (("stacking", {"protocol": "published"}), ("cluster-lira", {})):
                accuracies = []
                for seed in range(2 if quick else ATTACK_SEEDS):
                    built = catalog.federation_attack(attack, **settings)
                    guess = built(game.view, stream(seed, "width"))
                    accuracies.append(float((guess.client == game.truth.client).mean()))
                each = " ".join(f"{accuracy:.3f}" for accuracy in accuracies)
                print(f"| {name} | {attack} | {each} | {format_mean(accuracies)} |", flush=True)


def run_overfitted(quick: bool) -> None:  # noqa: FBT001 (like every benchmark)
    """Print how well the loss tells the colluding client's members, and how low it is on both."""
    epochs = EPOCHS[:1] if quick else EPOCHS
    print("| epochs | AUC | TPR at 1 % FPR | TPR at 3 % FPR | loss of members | of others |")
    print("|---:|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for many in epochs:
            each = list(_losses(many, Path(folder), 2 if quick else FEDERATIONS))
            print(
                f"| {many} | " + " | ".join(map(format_mean, np.transpose(each).tolist())) + " |",
                flush=True,
            )


def _losses(epochs: int, folder: Path, federations: int) -> Iterator[list[float]]:
    for seed in range(FIRST, FIRST + federations):
        game = train_federation(seed, "SoyNAM", None, FederationScale(16, epochs), folder)
        score, member = _colluder(game.challenge.view, seed)
        rates = [membership.tpr_at_fpr(score, member, at).value for at in (0.01, 0.03)]
        means = [-float(score[member].mean()), -float(score[~member].mean())]
        yield [membership.auc(score, member).value, *rates, *means]


def _colluder(federation: FederationView, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Minus the loss of the colluding client's records, and their membership."""
    game = study.challenge_colluder(federation, fitted=False).game
    return Threshold("loss")(game.view, stream(seed, "loss")).score, game.truth.member
