"""Tests whether guesses of class shares beat guesses that know nothing of whose shares they are."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int

from divulge.core import Proportions
from divulge.metrics.uninformed.draws import RandomisationTest, log_arrangements, number_of_draws


def randomise(
    guesses: Sequence[Sequence[Proportions] | None],
    truths: Sequence[Proportions],
    rng: np.random.Generator,
) -> RandomisationTest:
    """Draw what guesses achieve if they know nothing of which client holds what.

    The clients' true shares are permuted among the clients: that is valid where all that a guess
    about a client rests on is that client's update, so that guesses without information could as
    well be about each other's clients. Each attack's statistics are the mean L1 distance, with a
    minus sign, and the share of classes rightly declared null or not. Of few clients all orders
    are taken: then p is exact, and 1 / n! at the lowest, or more where clients hold the same.

    What all clients have in common stays where it is in every order: no such test can see that it
    leaks. Classes are not permuted: a guess may know from elsewhere which classes are common.

    Args:
        guesses: the guesses of each attack, one a client; None for an attack that is not done.
        truths: the true shares of each client.
        rng: draws the permutations.
    """
    matches = {
        (k, name): each
        for k, guess in enumerate(guesses)
        if guess is not None
        for name, each in _matches(guess, truths).items()
    }
    orders = _orders(len(truths), rng)
    rows = np.arange(len(truths))
    drawn = [each[rows, orders].mean(axis=1) for each in matches.values()]
    table = np.column_stack(drawn) if drawn else np.zeros((len(orders), 0))
    alike = Counter(truth.share.tobytes() for truth in truths)
    smallest = math.exp(-log_arrangements(list(alike.values())))
    return RandomisationTest(tuple(matches), (table,), smallest)


def _matches(
    guess: Sequence[Proportions], truths: Sequence[Proportions]
) -> dict[str, Float64[np.ndarray, "clients clients"]]:
    """How well the guess about each client (row) fits what each client (column) holds."""
    share, true = (np.array([client.share for client in each]) for each in (guess, truths))
    declared, null = (np.array([client.null for client in each]) for each in (guess, truths))
    return {
        "l1": -np.abs(share[:, None] - true).sum(axis=2),
        "null": (declared[:, None] == null).mean(axis=2),
    }


def _orders(clients: int, rng: np.random.Generator) -> Int[np.ndarray, "draws clients"]:
    """Orders of clients, the true one first: all of them, or where they are too many some."""
    draws = number_of_draws(clients) + 1
    if math.factorial(clients) <= draws:
        return np.array(list(itertools.permutations(range(clients))), np.int64)
    rest = rng.permuted(np.tile(np.arange(clients), (draws - 1, 1)), axis=1)
    return np.concatenate([np.arange(clients)[None], rest])
