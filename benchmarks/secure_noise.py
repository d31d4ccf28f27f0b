"""What secure noise costs, beside seeded noise: the numbers alone, and whole uses of them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import (
    Contender,
    Outcome,
    environment,
    interleaved,
    require_packages,
    table,
)
from divulge.core import ClientContext, NoiseKind, NoiseSource, Records, RoundContext

if TYPE_CHECKING:
    from torch import nn

SUMMARY = "secure noise beside seeded noise"

_WEIGHTS = 100_000
_FEATURES, _CLASSES = 446, 30

REPEATS = {"numbers": 100, "numbers-dp-sgd": 100, "update": 50, "training": 10, "answers": 20}
"""Turns by use: the shorter a use, the more it takes to find one that no other program disturbs."""


def run(quick: bool, name: str) -> Outcome:  # noqa: FBT001 (the flag of the command line)
    """Print how long one use takes with either kind of noise, on one thread.

    Raises:
        MissingPeer: cryptography, PyTorch or Opacus is not installed.
    """
    require_packages(("cryptography", "torch", "opacus"), "dp")
    import torch

    torch.set_num_threads(1)
    use = USES[name](quick)
    kinds: tuple[NoiseKind, ...] = ("secure", "seeded")
    timings = interleaved(
        [Contender(f"{name}, {kind}", partial(use, kind)) for kind in kinds],
        3 if quick else REPEATS[name],
    )
    print(environment(("divulge", "torch", "numpy", "opacus", "cryptography")))
    print(table(timings, base=timings[-1]))
    return Outcome(*timings)


def _source(kind: NoiseKind) -> NoiseSource:
    from divulge.defences.noise import SecureNoise, SeededNoise

    return SecureNoise() if kind == "secure" else SeededNoise(np.random.default_rng(0))


def _numbers(quick: bool) -> Callable[[NoiseKind], object]:  # noqa: FBT001
    """Normal noise on an update, in double precision."""
    values = np.random.default_rng(0).normal(size=_WEIGHTS // (10 if quick else 1))
    return lambda kind: _source(kind).add_normal(values, 1.0)


def _numbers_of_dp_sgd(quick: bool) -> Callable[[NoiseKind], object]:  # noqa: FBT001
    """Normal noise on a sum of gradients, in single precision; PyTorch's is the seeded one."""
    import torch

    sums = torch.randn(_WEIGHTS // (10 if quick else 1))
    generator = torch.Generator().manual_seed(0)

    def use(kind: NoiseKind) -> object:
        if kind == "seeded":
            return sums + torch.normal(0.0, 1.0, sums.shape, generator=generator)
        noisy = _source(kind).add_normal(sums.double().numpy(), 1.0)
        return torch.from_numpy(noisy).to(sums.dtype)

    return use


def _update(quick: bool) -> Callable[[NoiseKind], object]:  # noqa: FBT001
    """The whole client hook of local noise."""
    from divulge.defences.updates.local_dp import LocalNoise

    update = {
        f"{k}": np.random.default_rng(k).normal(size=(1000, 100)).astype(np.float32)
        for k in range(1 if quick else 2)
    }
    about = RoundContext(0, (0,), {name: value.shape for name, value in update.items()})
    defence = LocalNoise(1.0, 1e-5, clip=1.0)
    return lambda kind: defence.on_client(update, ClientContext(about, 0, _source(kind)))


def _training(quick: bool) -> Callable[[NoiseKind], object]:  # noqa: FBT001
    """One network by DP-SGD: 446-128-30, batches of 250 of 2,500 records."""
    from divulge.defences.training.dp_sgd.trainer import DPSGD
    from divulge.training.recipe import Recipe

    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (2500, _FEATURES)).astype(np.float32)
    pool = Records(x, rng.integers(0, _CLASSES, len(x)))
    recipe = Recipe(_perceptron, lr=0.1, momentum=0.9, epochs=1 if quick else 3, batch_size=250)
    everybody = np.ones((1, len(pool)), np.bool_)

    def use(kind: NoiseKind) -> object:
        trainer = DPSGD(recipe, 1e-5, noise_multiplier=1.0, noise=kind, jobs=1)
        return list(trainer.networks(pool, everybody, [1]))

    return use


def _perceptron() -> "nn.Module":
    from torch import nn

    return nn.Sequential(nn.Linear(_FEATURES, 128), nn.ReLU(), nn.Linear(128, _CLASSES))


def _answers(quick: bool) -> Callable[[NoiseKind], object]:  # noqa: FBT001
    """Noise on the answers of a model about some records."""
    from divulge.defences.answers.noise import AnswerNoise

    rng = np.random.default_rng(0)
    answers = rng.dirichlet(np.ones(_CLASSES), 200 if quick else 2000)
    x = rng.normal(size=(len(answers), 20))
    return lambda kind: AnswerNoise(noise=kind).change(answers, x, 1)


USES = {
    "numbers": _numbers,
    "numbers-dp-sgd": _numbers_of_dp_sgd,
    "update": _update,
    "training": _training,
    "answers": _answers,
}
