"""The least that a machine needs for the arithmetic of training, at its rate of matrix products."""

from benchmarks.timing import Contender, once
from divulge.core import Records
from divulge.training.recipe import Recipe


def measure_rate() -> float:
    """Floating-point operations a second of large matrix products on all threads, at their best."""
    import torch

    a = torch.rand(2048, 2048)
    product = torch.mm(a, a)
    multiply = Contender("", lambda: torch.mm(a, a, out=product))
    return 2 * 2048**3 / min(once(multiply).best for _ in range(20))


def count_operations(recipe: Recipe, records: Records) -> float:
    """What the matrix products and convolutions of learning one record once take, by PyTorch."""
    import torch
    from torch import nn
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        logits = recipe.network()(torch.tensor(records.x[: recipe.batch_size]))
        y = torch.tensor(records.y[: recipe.batch_size])
        torch.autograd.backward(nn.functional.cross_entropy(logits, y))
    return float(counter.get_total_flops()) / len(y)
