"""Listen to a strategy, and ask it, or those that it wraps, for what one of them knows."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from flwr.serverapp.strategy import Strategy

from divulge.federation.canaries import StatedEpsilon


def first_with(strategy: Strategy, name: str) -> Any:
    """The outermost strategy that has this attribute; wrappers hold theirs in ``strategy``."""
    inner: Any = strategy
    while not hasattr(inner, name) and isinstance(getattr(inner, "strategy", None), Strategy):
        inner = inner.strategy
    return inner


def stated_epsilon(strategy: Strategy) -> dict[str, float]:
    """What the accountant of a DP strategy states so far, as figures of a round."""
    ask = getattr(first_with(strategy, "privacy_spent"), "privacy_spent", None)
    spent = None if ask is None else ask()
    return {} if spent is None else StatedEpsilon(spent.epsilon, spent.delta).as_metrics()


def stated_deviation(strategy: Strategy) -> float | None:
    """The standard deviation of the noise that a DP strategy says it adds to each weight."""
    inner = first_with(strategy, "num_sampled_clients")
    names = ("noise_multiplier", "clipping_norm", "num_sampled_clients")
    if not all(hasattr(inner, name) for name in names):
        return None
    multiplier, norm, clients = (float(getattr(inner, name)) for name in names)
    return multiplier * norm / clients or None


@contextlib.contextmanager
def intercept(strategy: Any, mine: Mapping[str, Any]) -> Iterator[None]:
    """Put these in the place of a strategy's own methods, for all who call them meanwhile."""
    there = vars(strategy)
    before = {name: there[name] for name in mine if name in there}
    there.update(mine)
    try:
        yield
    finally:
        for name in mine:
            del there[name]
        there.update(before)
