"""Measure attacks on replicas of NIST's challenge, whose own models and truth are not public.

Each pack holds the predictions of four clients' networks on 542 records, at three privacy tiers,
with the truth. The genotypes of rep0 to rep2 are SYNTHETIC; those of real0 are SoyNAM's, with
classes derived from them, and without a private tier. Further federations are trained.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from divulge._util.json import Settings
from divulge._util.progress import Track, track_silently
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.attacks.assignment.stacking.attack import FOLDS, Protocol, Stacking
from divulge.attacks.membership.threshold import Threshold
from divulge.audits.challenges.model import MembershipChallenge, pose_view
from divulge.core import (
    NOBODY,
    FederationView,
    Membership,
    MembershipAttack,
    ModelView,
    Need,
    Scores,
)
from divulge.metrics import assignment, membership
from divulge.secrets.assignment import AssignmentSecret, describe_assignment
from divulge.secrets.base import Controls, FederationChallenge
from divulge.secrets.controls import control_on_shuffled
from divulge_papers.attempts import RowResult, attempt
from divulge_papers.papers.nist.federations import GenotypeOrigin
from divulge_papers.papers.nist.games import load_game
from divulge_papers.table import Size

SEEDS: Mapping[Size, int] = {"small": 3, "paper": 10}
"""Number of federations of each group: the packs first, then others that are trained."""


UNITS = "federations"


CROSSFIT_SEEDS: Mapping[Size, int] = {"small": 2, "paper": 10}
"""Number of federations with cross-fitted stacking, which takes longer than all the rest."""


RATES: Mapping[str, float] = {"TPR at 1 %": 0.01, "TPR at 3 %": 0.03}
"""False-positive rate of each column."""


_STAND_INS = (
    "The challenge's models and truth are not public: these are stand-ins of the same shape, on "
    "REAL genotypes of SoyNAM, with classes cut from the days to maturity, and on SYNTHETIC ones. "
    "One pack of SoyNAM, without DP, and three synthetic ones have 6,360 and 3,932 columns in "
    "place of 125,766; other federations are trained for this table on some {}, with the "
    "challenge's network. How many candidates are outsiders (44 of 73) is "
    "inferred from published sizes. TPR is that at a threshold of each federation. "
)


DIFFERS: Mapping[Size, str] = {
    "small": _STAND_INS.format("800 columns for 100 epochs (with DP 200 columns and 50 epochs)")
    + "Three federations a row, two for stacking crossfit.",
    "paper": _STAND_INS.format("800 columns for 100 epochs") + "Ten federations a row.",
}


def measure_assignment(
    seed: int, size: Size, *, folder: Path, origin: GenotypeOrigin, tier: str, attack: str,
    settings: Settings,
) -> RowResult:  # fmt: skip
    """Measure the assignment: whether each candidate, or each member, is assigned right."""
    if settings.get("protocol") == "crossfit" and seed >= CROSSFIT_SEEDS[size]:
        return RowResult({})
    played = load_game(seed, size, folder, origin, tier)
    view, truth = played.challenge.view, played.challenge.truth
    clients = tuple(str(k) for k in range(len(view.targets)))
    secret = AssignmentSecret(describe_assignment(view, clients, truth))
    challenge = FederationChallenge(view, secret)
    guess, entry = attempt(challenge, catalog.federation_attack(attack, **settings), seed)
    right, members = (guess.client == truth.client).astype(float), truth.client != NOBODY
    values = {
        "accuracy": right.tolist(),
        "recall": right[members].tolist(),
        "specificity": right[~members].tolist(),
    }
    rng = stream(seed, "nist", "permutations")
    values["p"] = [assignment.permutation_p_of_accuracy(guess, truth, view.collusion.records, rng)]
    return RowResult(values | _rates(*assignment.pairs(guess, truth, view.collusion)), [entry])


def measure_on_colluder(
    seed: int, size: Size, *, folder: Path, origin: GenotypeOrigin, tier: str,
    protocol: Protocol | None,
) -> RowResult:  # fmt: skip
    """Measure AUC and TPR, one value a member, on the client whose membership is known.

    Without a protocol the loss is the score.
    """
    if protocol == "crossfit" and seed >= CROSSFIT_SEEDS[size]:
        return RowResult({})
    federation = load_game(seed, size, folder, origin, tier).challenge.view
    attack = Threshold("loss") if protocol is None else StackingOnColluder(protocol)
    challenge = _challenge_colluder(federation, fitted=protocol is not None)
    guess, entry = attempt(challenge, attack, seed)
    judged = guess.score, challenge.game.truth.member
    return RowResult({"AUC": _placements(*judged), **_rates(*judged)}, [entry])


def measure_validation(
    seed: int, size: Size, *, folder: Path, origin: GenotypeOrigin, tier: str, guess: bool
) -> RowResult:
    """Measure the accuracy of repeated cross-validation on the client whose membership is known.

    Args:
        seed: seed of every random choice.
        size: size of the experiment.
        folder: folder that stores the clients' predictions.
        origin: origin of the genotypes.
        tier: privacy tier.
        guess: whether the published meta-classifier guesses; otherwise nobody is a member.
    """
    federation = load_game(seed, size, folder, origin, tier).challenge.view
    challenge = _challenge_colluder(federation, fitted=True)
    member = challenge.game.truth.member
    if not guess:
        return RowResult({"accuracy": (~member).astype(float).tolist()})
    attack = StackingOnColluder("published", folds=10)
    made = [attempt(challenge, attack, seed + 1000 * k) for k in range(REPEATS)]
    right = np.mean([(guess.score > 0.5) == member for guess, _ in made], axis=0)
    return RowResult({"accuracy": right.tolist()}, [entry for _, entry in made])


REPEATS = 3
"""Number of times that the cross-validation is repeated."""


def _challenge_colluder(federation: FederationView, *, fitted: bool) -> MembershipChallenge:
    """The colluding client's membership as a challenge, to an attack that may be fitted to it."""
    own = federation.collusion
    k = own.colluder
    records = federation.relevant[k].joined(federation.external[k]).joined(federation.records)
    none = np.zeros(len(federation.external[k]), bool)
    member = np.concatenate([own.relevant, none, own.records])
    view = _ColluderView(federation.targets[k], records, federation=federation)
    challenge = pose_view(view, Membership(member))
    if not fitted:
        return challenge
    return _KnownMembership(challenge.game, challenge.facts, challenge.candidates)


@dataclass(frozen=True, slots=True)
class _ColluderView(ModelView):
    """The colluding client's model and records, in the federation that they are of."""

    federation: FederationView = field(kw_only=True)


class _KnownMembership(MembershipChallenge):
    """A challenge to an attack that is fitted to the truth, so that no other can be planted."""

    __slots__ = ()

    def control(
        self, attack: MembershipAttack, guess: Scores, seed: int, track: Track[Any] = track_silently
    ) -> Controls:
        """The attack on shuffled answers: what is left is what it was told."""
        del guess, track
        return Controls(blind=control_on_shuffled(self.game, attack, seed))


@dataclass(frozen=True, slots=True)
class StackingOnColluder:
    """Stacking's cross-validated scores of the colluding client's records, by a protocol.

    As published it is fitted to the membership of these very records. So its view holds that.
    """

    protocol: Protocol
    folds: int = FOLDS
    name: ClassVar[str] = "stacking"
    paper: ClassVar[str] = Stacking.paper
    needs: ClassVar[Need] = Stacking.needs & ~Need.REFERENCE

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """Scores from this model's answers, and no other's."""
        assert isinstance(view, _ColluderView)
        targets = list(view.federation.targets)
        targets[view.federation.collusion.colluder] = view.target
        federation = replace(view.federation, targets=tuple(targets))
        return Scores(Stacking(self.protocol).on_colluder(federation, rng, self.folds).score)


def _placements(score: np.ndarray, member: np.ndarray) -> list[float]:
    """Share of non-members below each member, ties counting half; the mean is the AUC."""
    inside, outside = score[member][:, None], score[~member]
    # Mann-Whitney: a mean over members keeps them as units, where the AUC alone has none
    shares: list[float] = ((inside > outside) + (inside == outside) / 2).mean(axis=1).tolist()
    return shares


def _rates(score: np.ndarray, member: np.ndarray) -> dict[str, list[float]]:
    """TPR, repeated for each member, so that a federation counts by its members."""
    return {
        column: [membership.tpr_at_fpr(score, member, fpr).value] * int(member.sum())
        for column, fpr in RATES.items()
    }
