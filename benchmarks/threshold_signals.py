"""All threshold attacks against the black-box attacks of the Adversarial Robustness Toolbox."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np
from jaxtyping import Float, Float64, Shaped
from sklearn.metrics import roc_auc_score

from benchmarks import art_attacks, by_hand
from benchmarks.answers import Answers, synthetic
from benchmarks.timing import Contender, Outcome, Timing, environment, interleaved, once, table
from divulge.attacks.membership.gap import Gap
from divulge.attacks.membership.threshold import Threshold
from divulge.core import Game, Membership, MembershipAttack, ModelView, Need, Records, Scores
from divulge.metrics.measure import measure
from divulge.metrics.signals import SignalName
from divulge.secrets import attempt

SUMMARY = "seven attacks on answers in memory, and the black-box attacks of ART on the same ones"

_ATTACKS: tuple[MembershipAttack, ...] = (
    *(Threshold(signal) for signal in get_args(SignalName)),
    Gap(),
)
_PACKAGES = (
    "divulge",
    "adversarial-robustness-toolbox",
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
)
_RETIMED = 3
"""Trained attacks of ART timed as often as ours; the others take too long for that."""


@dataclasses.dataclass(frozen=True, slots=True)
class _AnswersTarget:
    """A target whose answers are there already: no side of the comparison asks a model."""

    answers: Float64[np.ndarray, "records classes"]

    @property
    def offers(self) -> Need:
        return Need.PROBABILITIES | Need.HARD_LABELS

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        del x
        return self.answers


def run(quick: bool) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print times and AUCs of divulge, of ART and of code written by hand.

    Raises:
        MissingPeer: ART, or the PyTorch that its default attack needs, is not installed.
    """
    art_attacks.require()
    answers = synthetic(4_000 if quick else 50_000, 100)
    half = len(answers.y) // 2
    learnt, judged = answers.part(slice(half)), answers.part(slice(half, None))
    attacks = [art_attacks.ArtAttack(kind, learnt, judged) for kind in art_attacks.KINDS]
    screened = sorted((once(Contender(a.name, a)) for a in attacks), key=lambda t: t.best)
    again = {timing.name for timing in screened[:_RETIMED]}
    peers = [Contender(a.name, a) for a in attacks if a.name in again]
    timings = interleaved([*_ours(answers), *_untrained(answers), *peers], 3 if quick else 7)
    timings += screened[_RETIMED:]
    print(f"{len(answers.y):,} synthetic answers over 100 classes, half of them about members")
    print(environment(_PACKAGES))
    print(table(timings, base=timings[0]))
    theirs = _fastest_peer(timings, _print_quality(judged, attacks))
    print(f"ours: all seven attacks; theirs: {theirs.name}, the fastest to find half of the leak")
    return Outcome(timings[0], theirs)


def _fastest_peer(timings: Sequence[Timing], leaks: Mapping[str, float]) -> Timing:
    """The fastest trained attack of ART among those that find at least half of what ours find."""
    useful = [timing for timing in timings if leaks.get(timing.name, 0.0) >= 0.5]
    return min(useful, key=lambda timing: timing.best)


def _ours(answers: Answers) -> list[Contender]:
    challenge = _challenge(answers)
    guess = Scores(_scores(challenge)["scaled_logit"])
    return [
        Contender("divulge: seven attacks", lambda: _scores(challenge)),
        Contender(
            "divulge: seven attacks with all statistics",
            lambda: [attempt.run_on_model(challenge, attack) for attack in _ATTACKS],
        ),
        Contender(
            "divulge: the statistics of one attack",
            lambda: measure(guess, challenge.truth),
        ),
    ]


def _untrained(answers: Answers) -> list[Contender]:
    return [
        Contender("by hand: seven signals", lambda: by_hand.signals(answers)),
        Contender(
            "by hand: seven signals with their AUC",
            lambda: _aucs(by_hand.signals(answers), answers),
        ),
        Contender("art rule-based", lambda: art_attacks.rule_based(answers)),
    ]


def _challenge(answers: Answers) -> Game[ModelView, Membership]:
    records = Records(np.arange(len(answers.y))[:, None], answers.y)
    return Game(ModelView(_AnswersTarget(answers.p), records), Membership(answers.member))


def _scores(challenge: Game[ModelView, Membership]) -> dict[str, by_hand.Signal]:
    rng = np.random.default_rng(0)
    return {
        getattr(attack, "signal", attack.name): attack(challenge.view, rng).score
        for attack in _ATTACKS
    }


def _aucs(scores: Mapping[str, by_hand.Signal], answers: Answers) -> dict[str, float]:
    return {name: float(roc_auc_score(answers.member, score)) for name, score in scores.items()}


def _print_quality(judged: Answers, attacks: Sequence[art_attacks.ArtAttack]) -> dict[str, float]:
    """Print AUCs; how much of our best attack's leak, AUC - 1/2, each attack of ART finds."""
    ours = _aucs(_scores(_challenge(judged)), judged)
    theirs = _aucs({attack.name: attack.score for attack in attacks}, judged)
    rule_based = {"art rule-based": art_attacks.rule_based(judged)}
    print("AUC on the half that ART did not learn from (0.5 is chance)")
    for side, aucs in (
        ("divulge", ours),
        ("by hand", _aucs(by_hand.signals(judged), judged)),
        ("", theirs | _aucs(rule_based, judged)),
    ):
        print(f"{side:11}" + "  ".join(f"{name} {auc:.3f}" for name, auc in aucs.items()))
    best = max(ours.values())
    return {name: (auc - 0.5) / (best - 0.5) for name, auc in theirs.items()}
