"""A defence's model for use elsewhere, with a section for its model card."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge._util import atomic
from divulge._util.folders import create_folder
from divulge.audits.compare import training_cost
from divulge.audits.compare.design import ComparisonDesign
from divulge.audits.compare.result import Comparison, VariantAudits
from divulge.audits.leave_one_out import result
from divulge.audits.leave_one_out.design import LeaveOneOutDesign
from divulge.audits.leave_one_out.run import ANSWERS
from divulge.core import Records, Target
from divulge.errors import MissingExtra, SpecError
from divulge.report import words
from divulge.report.compare_table import notes_on
from divulge.report.markdown import make_inert
from divulge.targets.defended import DefendedTarget
from divulge.targets.sklearn import SklearnTarget
from divulge.targets.torch import TorchTarget

CARD = "MODEL_CARD.md"
_OPENED = {
    "model.pt2": '`torch.export.load("model.pt2").module()` answers with logits.',
    "model.safetensors": "`model.safetensors` holds its weights, for the network they belong to.",
    "model.skops": '`skops.io.load("model.skops")` is the fitted estimator.',
}
"""How each file is opened, by its name."""


def export(asked: ComparisonDesign, found: Comparison, name: str, folder: Path) -> Path:
    """Write the first target of a defence as a file of its framework, and its card; the folder.

    The model is trained again from its seed, which gives the audited one up to rounding. Its
    answers are compared with those that were audited, and the card says how far they are apart.

    Args:
        asked: what was compared.
        found: what came of it.
        name: of the defence.
        folder: a new one.

    Raises:
        SpecError: there is no such defence, or its model is of no framework that has a format.
        TargetError: the model could not be trained.
        StoreError: the folder exists, or cannot be written.
    """
    one = found.find(name)
    question = asked.question(name)
    model, cost = training_cost.train_target(question)
    files = dict(_files(model, question.queries[0]))
    apart = _apart(found, one, question, model)
    create_folder(folder)
    for file, content in files.items():
        atomic.write(folder / file, content)
    text = card(found, one, tuple(files), cost.records, apart, question.shadows.answers)
    atomic.write(folder / CARD, text.encode())
    return folder


def card(
    found: Comparison,
    one: VariantAudits,
    files: tuple[str, ...],
    records: int,
    apart: float | None,
    answers: object = None,
) -> str:
    """The section of a model card: what the model is, what it was audited against, with figures.

    Args:
        found: the comparison.
        one: the defence that was chosen.
        files: that hold the model.
        records: that it was trained on.
        apart: the largest difference between its answers and the audited ones; None if unknown.
        answers: the answer defence that its figures suppose before it.
    """
    row, base = one.row(found.plan.lambdas), found.rows[0]
    plan = one.audits.plan
    figures = [f"| Accuracy on records it was not trained on | {words.format_rate(row.accuracy)} | "
               f"{words.format_rate(base.accuracy)} |"]  # fmt: skip
    figures += [
        f"| {words.metric_title(metric)} | {words.format_metric(metric, best.estimate)} by "
        f"{make_inert(best.attack)} | {_best_attack_lines(base.strongest.get(metric), metric)} |"
        for metric, best in row.strongest.items()
        if metric in ("auc", "tpr@0.01", "tpr@0.001")
    ]
    parts = [
        "## Membership privacy",
        f"Trained with: {make_inert(row.name)} ({make_inert(row.trained_with)}), on {records:,} "
        "records.",
        _guarantee(row.epsilon, row.delta),
        f"Audited with divulge {found.plan.divulge} against "
        f"{', '.join(make_inert(label) for label in plan.attacks)}: means over {plan.targets} "
        f"models trained in this way on random halves of {plan.records:,} records, this one among "
        f"them, each attacked with {plan.shadows} further models trained in the same way. "
        "Intervals are 95 % over models.",
        "\n".join([
            f"| | this defence | {make_inert(base.name)} |", "| --- | --- | --- |", *figures
        ]),
        *[f"{make_inert(note)}." for note in notes_on(row)],
        *([_answers_note(answers)] if answers is not None else []),
        " ".join([*(_OPENED[file] for file in files), _same(apart)]),
        "Attacks that were not tried may achieve more; a low figure is no proof that the model "
        "gives nothing away. Trained on other records, or on more of them, it is another model.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _best_attack_lines(best: Any, metric: str) -> str:
    return "not measurable" if best is None else words.format_metric(metric, best.estimate)


def _guarantee(epsilon: float | None, delta: float | None) -> str:
    if epsilon is None:
        return "Guarantee: none."
    return (
        f"Guarantee: ({epsilon:.3g}, {delta:g})-differentially private for adding or removing one "
        "training record. It covers one training, and not the choice of settings."
    )


def _answers_note(answers: object) -> str:
    return (
        f"The figures suppose that answers pass {make_inert(repr(answers))} before anybody sees "
        "them. **It is not part of the files**: whoever serves the model has to put it there."
    )


def _same(apart: float | None) -> str:
    if apart is None:
        return ""
    if apart == 0:
        return "It was trained again from its seed, and answers as the audited one, bit for bit."
    return (
        f"It was trained again from its seed; no probability differs by more than "
        f"{apart:.1g} from those of the model that was audited."
    )


def _apart(
    found: Comparison, one: VariantAudits, asked: LeaveOneOutDesign, model: Target
) -> float | None:
    """How far its answers are from the audited ones; None where these were not kept."""
    if found.path is None:
        return None
    place = result.target_folder(found.path / one.entered.run, 0) / ANSWERS
    audited: Float64[np.ndarray, "queries classes"] = atomic.map_array(place)
    records, behind = asked.queries[0], asked.shadows.answers
    key = asked.shadows.seeds(asked.plan.seed)[0]
    target = model if behind is None else DefendedTarget(model, behind, key)
    return float(np.abs(target.predict(records.x) - audited[: len(records)]).max())


def _files(model: Target, records: Records) -> Iterator[tuple[str, bytes]]:
    """The model in formats that need no divulge to be opened."""
    if isinstance(model, TorchTarget):
        yield from _torch_files(model, records)
    elif isinstance(model, SklearnTarget):
        yield "model.skops", _skops(model)
    else:
        raise SpecError(
            f"expected a PyTorch module or a scikit-learn estimator to export, got "
            f"{type(model).__name__}: save the model in the function that trains it"
        )


def _torch_files(model: TorchTarget, records: Records) -> Iterator[tuple[str, bytes]]:
    """The weights alone, for whoever has the network's code; and the network with its weights."""
    import safetensors.torch
    import torch

    module = model.module.cpu().eval()
    weights = {k: v.detach().contiguous().clone() for k, v in module.state_dict().items()}
    yield "model.safetensors", safetensors.torch.save(weights)
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    example = torch.tensor(records.x[:2])
    example = example.to(dtype) if example.is_floating_point() else example
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(module, (example,), dynamic_shapes=({0: batch},))
    file = io.BytesIO()
    torch.export.save(program, file)
    yield "model.pt2", file.getvalue()


def _skops(model: SklearnTarget) -> bytes:
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtra("skops", "skops") from error
    content: bytes = skops.io.dumps(model.estimator)
    return content
