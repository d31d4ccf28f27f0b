"""Time Decaf on a few clients and on many of one round, who share its shadow clients."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import environment
from divulge.attacks.composition.decaf.attack import Decaf
from divulge.core import Records, UpdateView
from divulge.federation import Federation, exact, simulate
from divulge.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

SUMMARY = "the whole attack on 10 and on 1,000 clients of one round"

CLASSES, INPUTS, RECORDS = 10, 32, 60

LEVELS = {
    "published method": Decaf(faithful=True),
    "biases": Decaf(level="bias"),
    "120 virtual clients": Decaf(level="virtual", clients=120),
    "refined, 420 virtual clients": Decaf(level="refined", clients=120),
}


def run(quick: bool) -> None:  # noqa: FBT001 (the command's flag)
    """Print a line a level: processor seconds for each number of clients, on synthetic records."""
    numbers = (10, 50) if quick else (10, 100, 1000)
    print(environment(("numpy", "torch")))
    views = _views(max(numbers))
    print(f"{'CPU seconds for so many clients':34}" + "".join(f"{many:>10}" for many in numbers))
    for name, attack in LEVELS.items():
        each = [_seconds(lambda a=attack, n=many: a.many(views[:n], _rng())) for many in numbers]  # type: ignore[misc]
        print(f"{name:34}" + "".join(f"{seconds:10.2f}" for seconds in each))


def _seconds(call: Callable[[], object]) -> float:
    """CPU seconds of this process, which also trains the shadow clients of a small network."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _views(clients: int) -> list[UpdateView]:
    rng = _rng()
    mixes = rng.dirichlet(np.ones(CLASSES), clients)
    counts = np.array([rng.multinomial(RECORDS, mix) for mix in mixes])
    pool = _records(int(counts.sum(axis=0).max()), 1)
    recipe = Recipe(network, lr=0.1, epochs=1, batch_size=20)
    federation = Federation(pool, exact(pool, counts), recipe, workers=1)
    transcript, known = simulate(federation, 1), _records(50, 2)
    return [transcript.view(str(k), network, known) for k in range(clients)]


def _records(per_class: int, seed: int) -> Records:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(CLASSES), per_class)
    x = rng.normal(size=(len(y), INPUTS)) + 2 * np.eye(CLASSES, INPUTS)[y]
    return Records(x.astype(np.float32), y)


def network() -> "nn.Module":
    """Untrained network."""
    from torch import nn

    return nn.Sequential(nn.Linear(INPUTS, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
