"""What would be gained if shadows kept φ at a temperature that divides each logit."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from benchmarks.shadow_quality.compare import mean_of_these
from benchmarks.shadow_quality.measure import FPRS, folder_of_answers
from benchmarks.shadow_quality.models import SEEDS, Games, Model, Views
from benchmarks.shadow_quality.rows import METRICS
from benchmarks.shadow_quality.tasks import TASKS
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.attacks.shared.shadow_statistics import log_probability
from divulge.core import MembershipAttack, ModelView, Need, Scores
from divulge.metrics import membership, signals
from divulge.targets.recorded import TableTarget

SUMMARY = "base, rmia and shadow-stack on φ, and on φ at a temperature that divides each logit"

SHADOWS, TEMPERATURE = 16, 2.0


def run(quick: bool) -> None:  # noqa: FBT001 (like all)
    """Print what each attack finds by φ at the temperature, less what it finds by φ itself.

    Raises:
        MissingData: the data is not at hand.
    """
    names = ("location-30", "mnist") if quick else tuple(TASKS)
    attacks: dict[str, tuple[MembershipAttack, MembershipAttack]] = {
        "base": (_LikelihoodRatio(TEMPERATURE), _LikelihoodRatio(1.0)),
        "rmia": (catalog.attack("rmia"),) * 2,
        "shadow-stack": (catalog.attack("shadow-stack"),) * 2,
    }
    differences: dict[str, list[np.ndarray]] = {name: [] for name in attacks}
    for target in names:
        task = TASKS[target]
        with folder_of_answers(task) as folder:
            plain, other = (kind(task, SHADOWS, folder) for kind in (Games, TemperedGames))
            plain.train()
            pairs = list(zip(plain.views("online"), other.views("online"), strict=True))
        for name, (usual, by_logits) in attacks.items():
            rows = [
                np.subtract(_measure(by_logits, tempered_views, k), _measure(usual, plain_views, k))
                for k, (plain_views, tempered_views) in enumerate(pairs)
            ]
            halves = np.reshape(rows, (-1, SEEDS, len(METRICS))).mean(axis=1)
            differences[name].append(halves)
            _print(target, name, [halves])
    for name, all_targets in differences.items():
        _print(f"mean of these {len(names)}", name, all_targets)


@dataclass(frozen=True)
class _LikelihoodRatio:
    """BASE's score where the temperature divides φ; at 1 on tempered models it is `BASE`."""

    temperature: float
    name: ClassVar[str] = "base"
    paper: ClassVar[str] = "Lassila et al. 2025"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS | Need.SHADOWS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        """Online, as the views of this benchmark are."""
        del rng
        assert view.shadows is not None
        phi = signals.compute_for_records("scaled_logit", view, view.records)
        known = log_probability(view.shadows.phi / self.temperature)
        expected = np.logaddexp.reduce(known, axis=1) - np.log(known.shape[1])
        return Scores(log_probability(phi / self.temperature) - expected)


class TemperedGames(Games):
    """The same models, of which every logit is divided by the temperature."""

    def _answers(self, model: Model) -> TableTarget:
        table = super()._answers(model)
        logits = table.raw
        if logits is None:
            logits = np.log(np.maximum(table.answers, signals.SMALLEST))
        cooler = logits.astype(np.float64) / TEMPERATURE
        return replace(table, answers=softmax(cooler, axis=1), raw=cooler)


def _measure(attack: MembershipAttack, views: Views, k: int) -> list[float]:
    score = attack(views.of(SHADOWS), stream(k, "attack", attack.name)).score
    rates = (membership.tpr_at_fpr(score, views.learned, fpr).value for fpr in FPRS.values())
    return [membership.auc(score, views.learned).value, *rates]


def _print(target: str, name: str, halves: list[np.ndarray]) -> None:
    cells = []
    for metric in range(len(METRICS)):
        of = [of_target[:, metric].tolist() for of_target in halves]
        low, high = mean_of_these(of)
        cells.append(f"{np.mean(of):+.4f} [{low:+.4f}, {high:+.4f}]")
    print(f"{target:18} {name:13} {'  '.join(cells)}", flush=True)
