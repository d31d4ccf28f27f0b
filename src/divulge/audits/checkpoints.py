"""Checkpoints: the model as it was during its training, and its losses on the candidates."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge._util import imports
from divulge._util.progress import Track
from divulge.audits.model_sections import TargetSpec
from divulge.audits.options import Access
from divulge.core import ModelView, Records, Target
from divulge.errors import DataError, SpecError
from divulge.metrics import signals
from divulge.targets import files, wrap

Checkpoint = Callable[[], Target]
"""Loads the model as it was at one moment: checkpoints need not be in memory together."""

Losses = Float64[np.ndarray, " records"]


def from_models(models: tuple[Any, ...], access: Access) -> tuple[Checkpoint, ...]:
    """The checkpoints that a Python user gives: models, asked as the target is.

    Args:
        models: in the order of training.
        access: how the target is asked.
    """
    return tuple(
        partial(
            wrap.as_target,
            model,
            access.output,
            batch_size=access.batch_size,
            device=access.device,
            classes=access.classes,
            output_name=access.output_name,
            time_limit=access.time_limit,
        )
        for model in models
    )


def find_checkpoints(spec: TargetSpec, folder: Path) -> tuple[Checkpoint, ...]:
    """The checkpoints that ``[target]`` names, in its order; files of a pattern by their numbers.

    Args:
        spec: the section.
        folder: where relative paths start.

    Raises:
        SpecError: there is no such file or name, or its code fails.
    """
    access = Access(
        spec.output,
        None,
        spec.classes,
        batch_size=spec.batch_size,
        device=spec.device,
        time_limit=spec.time_limit,
        output_name=spec.output_name,
    )
    return tuple(
        checkpoint for text in spec.checkpoints for checkpoint in _named(text, spec, access, folder)
    )


def load_file(spec: TargetSpec, path: Path, folder: Path) -> Target:
    """The model in a file, asked as ``[target]`` says.

    Args:
        spec: the section.
        path: the file.
        folder: where relative paths start.

    Raises:
        DivulgeError: the file cannot be read as a model.
    """
    return files.load_target(
        path,
        spec.output,
        factory=imports.load_object(spec.factory, folder) if spec.factory else None,
        batch_size=spec.batch_size,
        device=spec.device,
        classes=spec.classes,
        output_name=spec.output_name,
        time_limit=spec.time_limit,
    )


def trace_losses(
    checkpoints: tuple[Checkpoint, ...], view: ModelView, batch_size: int, track: Track[Any]
) -> Float64[np.ndarray, "records moments"]:
    """The loss of each candidate at each checkpoint, and last that of the target.

    Args:
        checkpoints: in the order of training.
        view: of the attacker, whose candidates are asked about as it sees them.
        batch_size: how many records are asked about at a time.
        track: shows progress.

    Raises:
        SpecError: the model answers numbers.
        DataError: a checkpoint has other classes than the model.
        TargetError: a checkpoint cannot be loaded, or does not answer.
    """
    if view.records.regression:
        raise SpecError(
            "expected no checkpoints of a model that answers a number, got some: a trace of losses "
            "is one of cross-entropies; leave them out"
        )
    answers = view.target.predict(view.records.x)
    losses = [
        _losses(checkpoint(), view.records, answers.shape[1], batch_size)
        for checkpoint in track(checkpoints, "Asking the checkpoints")
    ]
    return np.stack([*losses, _loss(answers, view.records)], axis=1)


def _named(text: str, spec: TargetSpec, access: Access, folder: Path) -> Iterable[Checkpoint]:
    if imports.split_reference(text)[1]:
        named = imports.load_object(text, folder)
        if inspect.isfunction(named) and not inspect.signature(named).parameters:
            named = imports.call_user_code(named, text)
        if not isinstance(named, Iterable):
            raise SpecError(
                f"expected a list of models as {text}, got {type(named).__name__}: name a list, or "
                "a function without parameters that returns one"
            )
        return from_models(tuple(named), access)
    return (partial(load_file, spec, path, folder) for path in _files(text, folder))


def _files(pattern: str, folder: Path) -> Iterator[Path]:
    whole = Path(folder, pattern)
    paths = sorted(Path(whole.anchor or ".").glob(str(whole.relative_to(whole.anchor))), key=_place)
    if not paths:
        raise SpecError(
            f"expected one or more checkpoints {pattern!r} in {folder}, got none: check the path"
        )
    yield from paths


def _place(path: Path) -> list[tuple[int, str]]:
    """By which files are put in order: epoch-2 stands before epoch-10."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _losses(target: Target, records: Records, classes: int, batch_size: int) -> Losses:
    starts = range(0, len(records), batch_size)
    answers = np.concatenate(
        [target.predict(records.x[start : start + batch_size]) for start in starts]
    )
    if answers.shape[1] != classes:
        raise DataError(
            f"expected checkpoints with {classes} classes, as the model has, got one with "
            f"{answers.shape[1]}: give the same model as it was during its training"
        )
    return _loss(answers, records)


def _loss(answers: Float64[np.ndarray, "records classes"], records: Records) -> Losses:
    losses: Losses = -signals.compute_signal("loss", answers, records.y)
    return losses
