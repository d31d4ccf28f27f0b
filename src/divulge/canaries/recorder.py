"""Score canaries while a model is trained: a hook on the optimiser sees every noisy step."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pydantic
import torch
from torch import nn
from torch._C._functorch import is_functorch_wrapped_tensor

from divulge._util import atomic
from divulge._util.arguments import FilePath, check_arguments
from divulge.canaries.directions import GradientDirections, noise_scale
from divulge.canaries.gradients import CanaryGradients, Prepare
from divulge.canaries.watched import (
    divisor_of,
    first_difference,
    place_of,
    refuse_other_weights,
    shapes_of,
)
from divulge.data.canary_files import read_candidates
from divulge.data.canary_scores import (
    CanaryScores,
    GradNorm,
    read_arrays,
    read_statistics,
    write_scores,
)
from divulge.data.noise import SeenNoise
from divulge.data.sampling import SeenBatches, StatedSampling
from divulge.errors import SpecError, StoreError
from divulge.targets.fingerprints import fingerprint_model
from divulge.targets.model_parts import versions_of

NoiseDeviation = Annotated[float, pydantic.Field(gt=0)]
"""A standard deviation of noise, in the units of a gradient."""


@check_arguments
class CanaryRecorder:
    """Sums, over all steps, the inner product of the noisy gradient with each canary's own.

    Works with Opacus' ``PrivacyEngine``, with ``DPSGD.train(..., watch=recorder.watch)`` and with a
    plain PyTorch loop. It never needs the coins, and changes nothing of the training. Besides, it
    holds each step against earlier ones: is the noise new, and of the stated scale?

    Args:
        canaries: the folder of `make_canaries`; the coins in it are not read.
        network: the untrained network, before Opacus wraps it; it is copied.
        path: the ``.npz`` file that `save` writes.
        max_grad_norm: what a record's gradient is clipped to.
        prepare: what the training does with the features of the canaries, a tensor, before the
            network gets them. For texts it gets a list of them, and returns a tensor of tokens.
        sampling: what the accountant is told about the batches. Then their sizes are recorded, and
            what Opacus divides gradients by; the audit says whether they are as stated.
        noise_deviation: the stated standard deviation of the noise in each entry of the gradient
            that the optimiser gets: noise multiplier times ``max_grad_norm`` over what the sum is
            divided by. By default what Opacus' optimiser says; a loop of your own says nothing.
        resume: whether to continue the sums in the file, for a training that continues from the
            checkpoint of the same step.

    Raises:
        StoreError: the canaries were changed, or the file of scores is there without ``resume``, or
            is not there with it.

    References:
        Nasr et al. (2023), Tight auditing of differentially private machine learning; Andrew et
        al. (2024), One-shot empirical privacy estimation for federated learning.
    """

    def __init__(
        self,
        canaries: FilePath,
        network: nn.Module,
        path: FilePath,
        *,
        max_grad_norm: GradNorm = 1.0,
        prepare: Prepare | None = None,
        sampling: StatedSampling | None = None,
        noise_deviation: NoiseDeviation | None = None,
        resume: bool = False,
    ) -> None:
        candidates = read_candidates(Path(canaries))
        self._path = Path(path)
        self._gradients = CanaryGradients(
            network, candidates.x, candidates.y, max_grad_norm, prepare
        )
        self._canaries = candidates.digest
        self._directions = GradientDirections(self._gradients, int(candidates.digest[:16], 16))
        self._noise = self._directions.watcher()
        self._deviation = noise_deviation
        self._scale = 0.0  # of the noise, as Opacus' optimiser said it at the step before
        self._sums = np.zeros(len(candidates.y))
        self._steps = 0
        self._sampling = sampling
        self._sizes: list[int] = []
        self._size = 0  # of the batch since the last step
        self._divisors: tuple[float, float] | None = None
        self._statistics: dict[str, torch.Tensor] | None = None  # before the first batch
        self._changed: set[str] = set()
        self._place: np.ndarray | None = None  # where the last step left the weights
        self._first: np.ndarray | None = None  # where the first step found them
        self._watched: nn.Module | None = None
        self._libraries: dict[str, str] = {}
        if resume:
            atomic.remove_unfinished(self._path)
            self._continue()
        elif self._path.exists():
            raise StoreError(
                f"expected a new file at {self._path}, it is there: name another one, or pass "
                "resume=True where the training continues from the checkpoint of the same step"
            )

    @property
    def steps(self) -> int:
        """How many steps were seen."""
        return self._steps

    def watch(self, model: nn.Module, optimiser: Any) -> None:
        """See every step of an optimiser from now on; call it before the first one.

        Args:
            model: the network, wrapped by Opacus or not.
            optimiser: PyTorch's, or the one of Opacus around it.

        Raises:
            SpecError: the model has other parameters than the network, the optimiser changes
                weights that are not the model's, something is watched already, or a divisor is
                stated and the optimiser does not say what it divides by.
        """
        if self._watched is not None:
            raise SpecError("expected one model to watch, got a second: make another recorder")
        inner = getattr(model, "_module", model)
        expected = shapes_of(self._gradients.network)
        shapes = shapes_of(inner)
        if shapes != expected:
            raise SpecError(
                "expected the network that the recorder was made with, got one with other weights "
                f"({first_difference(expected, shapes)}): make the recorder with the same network"
            )
        stated = self._sampling
        private = optimiser if hasattr(optimiser, "expected_batch_size") else None
        if stated and stated.divisor is not None and private is None:
            raise SpecError(
                "expected an optimiser of Opacus beside a divisor, got "
                f"{type(optimiser).__name__}, which does not say what it divides gradients by: "
                "leave the divisor out"
            )
        while hasattr(optimiser, "original_optimizer"):
            optimiser = optimiser.original_optimizer
        if not hasattr(optimiser, "register_step_post_hook"):
            raise SpecError(
                f"expected an optimiser of PyTorch, got {type(optimiser).__name__}: pass the one "
                "whose step() changes the weights"
            )
        refuse_other_weights(inner, optimiser)
        self._watched = inner
        self._libraries = versions_of(model, private)
        if private is not None:
            self._scale = noise_scale(private)
        inner.register_forward_pre_hook(self._before_forward)
        inner.register_forward_hook(self._after_forward)
        optimiser.register_step_pre_hook(lambda *_: self._before_step(inner, private))
        optimiser.register_step_post_hook(lambda *_: self._after_step(inner))

    def save(self) -> Path:
        """Write the scores so far, atomically; do so with each checkpoint, and at the end.

        Raises:
            SpecError: no step was seen, no weight has moved since the first one, or no batch was
                seen where their sampling is stated.
            StoreError: the file cannot be written.
        """
        if self._watched is None or self._place is None or not self._steps:
            raise SpecError(
                "expected a training that was watched, got no step: call watch(model, optimizer) "
                "before it"
            )
        if self._sampling is not None and not any(self._sizes):
            raise SpecError(
                "expected batches that go through the network in training mode, saw none: call the "
                "network itself, or leave sampling out"
            )
        if self._first is not None and np.array_equal(self._place, self._first):
            raise SpecError(
                f"expected a training that changes the model, but after {self._steps:,} steps "
                "every weight is as before: the steps changed other copies of them, or nothing; "
                "move the model to its device and add adapters before the optimiser is made"
            )
        model = self._gradients.load(self._watched.state_dict())
        scores = CanaryScores(
            self._sums,
            "white",
            self._canaries,
            fingerprint_model(model) or "",
            self._steps,
            batches=None
            if self._sampling is None
            else SeenBatches(np.array(self._sizes), self._sampling, self._divisors),
            statistics=tuple(sorted(self._changed)),
            noise=self._noise.seen(),
            libraries=self._libraries,
        )
        write_scores(self._path, scores, place=self._place, **self._noise.as_arrays())
        return self._path

    def _before_forward(self, module: nn.Module, given: tuple[Any, ...]) -> None:
        if module.training and torch.is_grad_enabled() and given:
            self._size += len(given[0])  # DPSGD, which may take records apart, says the number
            if self._statistics is None:
                self._statistics = self._gradients.statistics(module.state_dict())

    def _after_forward(self, module: nn.Module, _: Any, output: Any) -> None:
        """Look at the loss where it is differentiated: does it depend on differences of logits?"""
        differentiable = (
            isinstance(output, torch.Tensor) and output.ndim > 1 and output.requires_grad
        )
        if module.training and differentiable:
            output.register_hook(self._look_at_loss)

    def _look_at_loss(self, gradient: torch.Tensor) -> None:
        if is_functorch_wrapped_tensor(gradient) or self._noise.loss == "other":
            return
        whole, sums = gradient.double().norm(), gradient.double().sum(dim=1).norm()
        if whole > 0:
            self._noise.loss = "shift-invariant" if sums <= 1e-3 * whole else "other"

    def _before_step(self, module: nn.Module, private: Any) -> None:
        weights = module.state_dict()
        if self._place is not None and not np.array_equal(self._place, place_of(module)):
            raise StoreError(
                f"expected the weights that step {self._steps} left, got others: the training was "
                "resumed from another checkpoint; resume it from the one saved with the scores, or "
                "train again with a new recorder"
            )
        if self._first is None:
            self._first = place_of(module)
        direction = {
            name: p.grad.detach() for name, p in module.named_parameters() if p.grad is not None
        }
        self._sums += self._gradients.products(weights, direction)
        deviation = self._deviation
        if private is not None:
            self._size = getattr(private, "records_in_batch", self._size)
            low, high = self._divisors or (np.inf, 0.0)
            divisor = divisor_of(private)
            self._divisors = min(low, divisor), max(high, divisor)
            deviation = deviation or self._read_scale(private) / divisor or None
        self._noise.add(self._directions.step(direction, deviation))

    def _read_scale(self, private: Any) -> float:
        """What Opacus says of a step; adaptive clipping and schedules may have moved on since."""
        before, self._scale = self._scale, noise_scale(private)
        return min(before, self._scale)

    def _after_step(self, module: nn.Module) -> None:
        self._place = place_of(module)
        self._steps += 1
        self._sizes.append(self._size)
        self._size = 0
        if self._statistics:
            self._changed |= self._gradients.changed(self._statistics, module.state_dict())

    def _continue(self) -> None:
        arrays = read_arrays(self._path, "score", "about", "steps", "place", more=True)
        about, known = arrays["about"].tolist(), len(arrays["score"]) == len(self._sums)
        if about[:2] != ["white", self._canaries] or not known:
            raise StoreError(
                f"expected scores of these canaries in {self._path}, got others: name the file "
                "that the recorder of the same training wrote"
            )
        try:
            before, self._changed = SeenBatches.from_arrays(arrays), set(read_statistics(arrays))
            noise = SeenNoise.from_arrays(arrays)
            if noise is not None:  # files from before it was looked at hold nothing of it
                self._noise.restore(noise, arrays)
        except (SpecError, ValueError) as error:
            raise atomic.damaged_file_error(self._path, error) from error
        if (before and before.stated) != self._sampling:
            raise SpecError(
                f"expected sampling={before and before.stated}, as in {self._path}, got "
                f"{self._sampling}: state for the rest of a training what was stated at its start"
            )
        self._sizes = before.sizes.tolist() if before else []
        self._divisors = before.divisors if before else None
        self._sums = arrays["score"].astype(np.float64)
        self._steps = int(arrays["steps"][0])
        self._place = arrays["place"].astype(np.float64)
