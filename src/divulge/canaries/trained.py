"""Score canaries after training: by their losses, or by checkpoints of every step."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import FilePath, check_arguments
from divulge._util.extras import name_missing_extra
from divulge.core import Need
from divulge.core.tokens import as_token_target
from divulge.data.canary_files import Canaries, read_candidates
from divulge.data.canary_scores import CanaryScores, GradNorm, write_scores
from divulge.errors import DataError, SpecError
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.model_parts import versions_of
from divulge.targets.outputs import Output
from divulge.targets.wrap import as_target

_UNCHANGED = (
    "check that its adapters are loaded, and that the optimiser was made of the weights that are "
    "saved, behind the move to a device"
)
"""What to do about a training that left the model as it was."""
_SMALLEST = 1e-30
"""Probabilities below this count as this much."""


@check_arguments
def score_canaries(
    canaries: FilePath,
    model: Any,
    path: FilePath,
    *,
    output: Output | None = None,
    reference: Any = None,
) -> Path:
    """Score canaries by the loss of the trained model on each, in the black box.

    With a reference, a score is the reference's loss on the canary less that of the model: what
    makes a canary hard for every model alike falls out of the pair.

    Args:
        canaries: the folder of `make_canaries`; the coins in it are not read.
        model: the trained model, as for `divulge.audit`. It gets the canaries' features. Of a
            language model (a text-generation pipeline) the loss is that of the whole text.
        path: the ``.npz`` file to write.
        output: what the model returns: ``logits``, ``probabilities``.
        reference: a model of the same kind that has not seen the canaries: the one before
            training; or one trained by the same script on other records in their place, which shows
            noise that repeats from a fixed seed. Without a reference far less is seen.

    Returns:
        The path of the file.

    Raises:
        StoreError: the canaries were changed, or the file cannot be written.
        TargetError: a model cannot be asked, or its answers are not what was said.
        DataError: a model has fewer classes than the canaries, or answers exactly as the reference.
    """
    candidates = read_candidates(Path(canaries))
    libraries = versions_of(model)
    model = getattr(model, "_module", model)  # what Opacus wraps
    score = -_losses(candidates, model, output)
    if reference is not None:
        score += _losses(candidates, getattr(reference, "_module", reference), output)
        if not score.any():
            raise DataError(
                "expected a model that training has changed, got one that says of every canary "
                f"exactly what the reference says: {_UNCHANGED}"
            )
    of = fingerprint_model(getattr(model, "module", model)) or ""
    scores = CanaryScores(score, "black", candidates.digest, of, 0, libraries=libraries)
    write_scores(Path(path), scores)
    return Path(path)


@check_arguments
def score_checkpoints(
    canaries: FilePath,
    network: Any,
    checkpoints: Iterable[Mapping[str, Any]],
    path: FilePath,
    *,
    max_grad_norm: GradNorm = 1.0,
    prepare: Any = None,
) -> Path:
    """Score canaries by checkpoints, in the white box, where no hook can watch the training.

    The score of a canary sums, from each checkpoint to the next, how far the weights moved against
    its clipped gradient. With a checkpoint before the first step and after each step of SGD without
    momentum this is what `CanaryRecorder` sums, but for the learning rate; with fewer
    checkpoints, or other optimisers, less is seen.

    Args:
        canaries: the folder of `make_canaries`; the coins in it are not read.
        network: the untrained network.
        checkpoints: state dictionaries in the order of training, two or more.
        path: the ``.npz`` file to write.
        max_grad_norm: see `CanaryRecorder`.
        prepare: see `CanaryRecorder`.

    Returns:
        The path of the file.

    Raises:
        SpecError: fewer than two checkpoints, they are not of this network, or all are alike.
        StoreError: the canaries were changed, or the file cannot be written.
        TargetError: the network does not take the canaries.
    """
    with name_missing_extra():
        from torch import nn

        from divulge.canaries.gradients import CanaryGradients
    if not isinstance(network, nn.Module):
        raise SpecError(
            f"expected a PyTorch module, got {type(network).__name__}: pass the network"
        )
    candidates = read_candidates(Path(canaries))
    gradients = CanaryGradients(network, candidates.x, candidates.y, max_grad_norm, prepare)
    score, steps, last, changed = np.zeros(len(candidates.y)), 0, None, False
    statistics: set[str] = set()
    for before, after in pairwise(_of_network(checkpoint, network) for checkpoint in checkpoints):
        moved = {name: before[name] - after[name] for name in gradients.trained}
        score += gradients.products(before, moved)
        statistics |= gradients.changed(before, after)
        changed |= any(bool(difference.any()) for difference in moved.values())
        steps, last = steps + 1, after
    if last is None:
        raise SpecError("expected two checkpoints or more, got fewer: save one after each step")
    if not changed:
        raise SpecError(
            f"expected checkpoints of a training, got {steps + 1:,} with the same trained weights: "
            f"{_UNCHANGED}"
        )
    of = fingerprint_model(gradients.load(last)) or ""
    scores = CanaryScores(
        score,
        "white",
        candidates.digest,
        of,
        steps,
        statistics=tuple(sorted(statistics)),
        libraries=versions_of(network),
    )
    write_scores(Path(path), scores)
    return Path(path)


def _losses(
    canaries: Canaries, model: Any, output: Output | None
) -> Float64[np.ndarray, " canaries"]:
    target = as_target(model, output)
    texts = canaries.x.dtype.kind == "U"
    if Need.TOKENS in target.offers:
        tokens = as_token_target(target).tokens(canaries.x.tolist())
        # the sum and not the mean: with a reference it is a likelihood ratio
        return -np.add.reduceat(tokens.logprob, tokens.start[:-1])
    answers = target.predict(canaries.x.tolist() if texts else canaries.x)
    if answers.shape[1] <= canaries.y.max():
        raise DataError(
            f"expected answers about {int(canaries.y.max()) + 1} classes or more, got "
            f"{answers.shape[1]}: ask the model that was trained with the canaries' labels"
        )
    own = np.take_along_axis(answers, canaries.y[:, None], axis=1)[:, 0]
    return np.asarray(-np.log(np.maximum(own, _SMALLEST)))


def _of_network(checkpoint: Mapping[str, Any], network: Any) -> dict[str, Any]:
    named = {name.removeprefix("_module."): value for name, value in checkpoint.items()}
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    shapes = {name: tuple(getattr(value, "shape", ())) for name, value in named.items()}
    if shapes != expected:
        raise SpecError(
            f"expected state dictionaries of the network, with {len(expected)} tensors, got one "
            f"with {len(shapes)} or of other shapes: pass module.state_dict()"
        )
    return named
