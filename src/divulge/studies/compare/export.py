"""A defence's model for use elsewhere, with a section for its model card."""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import Float64

from divulge._util import atomic
from divulge._util.folders import create_folder
from divulge.core import NoiseKind, Target
from divulge.report import words
from divulge.report.markdown import make_inert
from divulge.studies.compare import training_cost
from divulge.studies.compare.design import ComparisonDesign
from divulge.studies.compare.model_files import model_files
from divulge.studies.compare.result import Comparison
from divulge.studies.compare.table import notes_on
from divulge.studies.compare.variant import VariantAudits
from divulge.studies.leave_one_out import result
from divulge.studies.leave_one_out.design import LeaveOneOutDesign
from divulge.studies.leave_one_out.target import ANSWERS
from divulge.targets.defended import DefendedTarget
from divulge.targets.torch import TorchTarget

CARD = "MODEL_CARD.md"
_OPENED = {
    "model.pt2": '`torch.export.load("model.pt2").module()` answers with logits.',
    "model.safetensors": "`model.safetensors` holds its weights, for the network they belong to.",
    "model.skops": '`skops.io.load("model.skops")` is the fitted estimator, or a list of several '
    "whose probabilities are averaged.",
}
"""How each file is opened, by its name."""


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """What a card has to say of the model beside what the comparison found."""

    files: tuple[str, ...]
    """Files that hold the model."""
    question: LeaveOneOutDesign
    """How it was trained: as the audited models, but for its noise."""
    records: int
    """How many records it was trained on."""
    weights: int | None
    """How many numbers were trained; None if unknown."""
    apart: float | None
    """The largest difference between its answers and the audited ones; None if unknown."""

    @property
    def noise(self) -> NoiseKind | None:
        """Where the noise of its training came from; None if divulge knows of none."""
        return _noise_of(self.question.shadows.trainer)


def export(
    design: ComparisonDesign,
    comparison: Comparison,
    name: str,
    folder: Path,
    noise: NoiseKind = "secure",
) -> Path:
    """Write the first target of a defence as a file of its framework, and its card; the folder.

    The model is trained again from its seed, which gives the audited one up to rounding. Its
    answers are compared with those that were audited, and the card says how far they are apart.
    Where training adds noise for a promise, as DP-SGD does, the noise is secure unless said
    otherwise: the model is then one more of the same kind.

    Args:
        design: what was compared.
        comparison: what came of it.
        name: of the defence.
        folder: a new one.
        noise: of a training that adds some; with ``seeded`` noise the audited model is written.

    Raises:
        SpecError: there is no such defence, or its model is of no framework that has a format.
        MissingExtra: cryptography is not installed, which secure noise needs.
        TargetError: the model could not be trained.
        StoreError: the folder exists, or cannot be written.
    """
    variant = comparison.find(name)
    question = _with_noise(design.question(name), noise)
    model, cost = training_cost.train_target(question)
    files = dict(model_files(model, question.queries[0]))
    fresh = _noise_of(question.shadows.trainer) == "secure"
    apart = None if fresh else _apart(comparison, variant, question, model)
    made = ExportedModel(tuple(files), question, cost.records, _count_weights(model), apart)
    create_folder(folder)
    for file, content in files.items():
        atomic.write(folder / file, content)
    atomic.write(folder / CARD, card(comparison, variant, made).encode())
    return folder


def _with_noise(question: LeaveOneOutDesign, noise: NoiseKind) -> LeaveOneOutDesign:
    trainer = with_noise(question.shadows.trainer, noise)
    return replace(question, shadows=replace(question.shadows, trainer=trainer))


def with_noise(trainer: Any, noise: NoiseKind) -> Any:
    """The trainer with this noise in training, where training has any."""
    return trainer if _noise_of(trainer) is None else replace(trainer, noise=noise)


def _noise_of(trainer: Any) -> NoiseKind | None:
    """Where a trainer's noise comes from; None if it says nothing of it."""
    noise: Any = getattr(trainer, "noise", None)
    return noise if is_dataclass(trainer) and noise in get_args(NoiseKind) else None


def card(comparison: Comparison, variant: VariantAudits, made: ExportedModel) -> str:
    """The section of a model card: what the model is, what it was audited against, with figures.

    Args:
        comparison: the comparison.
        variant: the defence that was chosen.
        made: the model.
    """
    row, base = variant.row(comparison.head.facts.lambdas), comparison.rows[0]
    facts, fresh = variant.audits.facts, made.noise == "secure"
    figures = [f"| Accuracy on records it was not trained on | {words.format_rate(row.accuracy)} | "
               f"{words.format_rate(base.accuracy)} |"]  # fmt: skip
    figures += [
        f"| {words.metric_title(metric)} | {words.format_metric(metric, best.estimate)} by "
        f"{make_inert(best.attack)} | {_best_attack_lines(base.strongest.get(metric), metric)} |"
        for metric, best in row.strongest.items()
        if metric in ("auc", "tpr@0.01", "tpr@0.001")
    ]
    answers = made.question.shadows.answers
    parts = [
        "## Membership privacy",
        f"Trained with: {make_inert(row.name)} ({make_inert(row.trained_with)}), on "
        f"{made.records:,} records.",
        _guarantee(row.epsilon, row.delta, by_person=facts.people is not None),
        *(_noise_and_settings(made, variant.entered.network) if row.epsilon is not None else []),
        f"Audited with divulge {comparison.head.divulge} against "
        f"{', '.join(map(make_inert, variant.audits.head.attacks))}: means over {facts.targets} "
        f"models trained in this way on random halves of {facts.records:,} records, this one "
        f"{'not ' if fresh else ''}among them, each attacked with {facts.shadows} further models "
        "trained in the same way. Intervals are 95 % over models.",
        "\n".join([
            f"| | this defence | {make_inert(base.name)} |", "| --- | --- | --- |", *figures
        ]),
        *[f"{make_inert(note)}." for note in notes_on(row)],
        *([_answers_note(answers)] if answers is not None else []),
        " ".join([*(_OPENED[file] for file in made.files), _same(made.apart, fresh=fresh)]),
        "Attacks that were not tried may achieve more; a low figure is no proof that the model "
        "gives nothing away. Trained on other records, or on more of them, it is another model.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


_NOISE: Mapping[NoiseKind | None, str] = {
    "secure": "Noise: secure. Noise and batches were drawn by AES in counter mode under keys of "
    "the operating system; nobody can draw them again. The sum of gradients and the noise were "
    "each rounded to the same grid before they were added: this is the answer to floating-point "
    "attacks on the noise (Mironov 2012; Holohan and Braghin 2021). The promise does not cover "
    "rounding before that, of each gradient and of their sum.",
    "seeded": "**Noise: seeded. The promise does not hold for whoever knows the seed**, which is "
    "in the settings of the run: they can compute the noise and take it off. Nor is this noise "
    "protected from floating-point attacks (Mironov 2012). To publish a model for its promise, "
    "export it with secure noise.",
    None: "Noise: divulge does not know how this training draws its noise. If a seed gives it, the "
    "promise does not hold for whoever knows the seed.",
}
"""What a card with a promise says of the noise."""


def _noise_and_settings(made: ExportedModel, network: str) -> list[str]:
    """Where the noise came from, and what the promise was computed from."""
    trainer, x = made.question.shadows.trainer, made.question.queries[0].x
    tell = getattr(trainer, "training_settings", None)
    details: dict[str, str] = {} if tell is None else tell(made.records)
    made_by = network or getattr(getattr(getattr(trainer, "recipe", None), "network", None),
                                 "__qualname__", "")  # fmt: skip
    details |= {"network": made_by} if made_by else {}
    details |= {} if made.weights is None else {"weights": f"{made.weights:,}"}
    details |= {"shape of a record": f"{x.shape[1:]}", "type of a record": f"{x.dtype}"}
    lines = [f"| {make_inert(name)} | {make_inert(value)} |" for name, value in details.items()]
    return [_NOISE[made.noise], "\n".join(["| training | |", "| --- | --- |", *lines])]


def _best_attack_lines(best: Any, metric: str) -> str:
    return "not measurable" if best is None else words.format_metric(metric, best.estimate)


def _guarantee(epsilon: float | None, delta: float | None, *, by_person: bool) -> str:
    if epsilon is None:
        return "Guarantee: none."
    return (
        f"Guarantee: ({epsilon:.3g}, {delta:g})-differentially private for adding or removing "
        f"{neighbour(by_person=by_person)}. It covers one training, and not the choice of settings."
    )


def neighbour(*, by_person: bool) -> str:
    """By what two training sets differ that a guarantee makes alike, in words."""
    return "all records of one person" if by_person else "one training record"


def _answers_note(answers: object) -> str:
    return (
        f"The figures suppose that answers pass {make_inert(repr(answers))} before anybody sees "
        "them. **It is not part of the files**: whoever serves the model has to put it there, with "
        "a key of its own, and secure noise where it adds any."
    )


def _same(apart: float | None, *, fresh: bool) -> str:
    if fresh:
        return (
            "It was trained with the settings of the audited models and noise of its own: it is "
            "one more model of their kind."
        )
    if apart is None:
        return ""
    if apart == 0:
        return "It was trained again from its seed, and answers as the audited one, bit for bit."
    return (
        f"It was trained again from its seed; no probability differs by more than "
        f"{apart:.1g} from those of the model that was audited."
    )


def _apart(
    comparison: Comparison, variant: VariantAudits, question: LeaveOneOutDesign, model: Target
) -> float | None:
    """How far its answers are from the audited ones; None where these were not kept."""
    if comparison.path is None:
        return None
    place = result.target_folder(comparison.path / variant.entered.run, 0) / ANSWERS
    audited: Float64[np.ndarray, "queries classes"] = atomic.map_array(place)
    records, behind = question.queries[0], question.shadows.answers
    key = question.shadows.seeds(question.head.seed)[0]
    target = model if behind is None else DefendedTarget(model, behind, key)
    return float(np.abs(target.predict(records.x) - audited[: len(records)]).max())


def _count_weights(model: Target) -> int | None:
    if not isinstance(model, TorchTarget):
        return None
    return sum(p.numel() for p in model.module.parameters())
