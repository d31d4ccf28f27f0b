"""Small federations whose models are known: one client gathers the answers of all."""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int

from divulge.core import (
    NOBODY,
    Assignment,
    Collusion,
    FederationView,
    Game,
    Need,
    Records,
    RoundSignals,
    Target,
)
from divulge.federation.local_models import AssignmentGame
from divulge.targets.outputs import to_probabilities
from divulge.targets.recorded import TableTarget

CLASSES = 4
OFFERS = Need.PROBABILITIES | Need.HARD_LABELS


ROUNDS = 2


@dataclass(frozen=True, slots=True)
class TableUpdates:
    """What rounds say about records whose only feature is their row number."""

    rounds: tuple[RoundSignals, ...]
    clients: tuple[str, ...]

    def signals(self, records: Records) -> tuple[RoundSignals, ...]:
        """The rows of these records."""
        rows = records.x
        return tuple(
            RoundSignals(
                state.loss[rows], state.inner[rows], state.gradient_norm[rows], state.update_norm
            )
            for state in self.rounds
        )

    def residuals(
        self, records: Records, layer: str | None = None
    ) -> tuple[Float64[np.ndarray, "records clients"], ...]:
        """Less for what an update contains: here a function of the products."""
        del layer
        return tuple(np.exp(-0.2 * state.inner[records.x]) for state in self.rounds)


def draw_game(
    seed: int, *, leak: float = 1.0, sure: float = 0.0, clients: int = 3, classes: int = CLASSES
) -> AssignmentGame:
    """Clients whose members gather around one point a class, as far as ``leak`` says.

    Of their labels the models are surer by so much of a logit. Updates of two rounds contain
    their gradients as far as ``leak`` says.

    Clients have 30 members and 30 others among their relevant records, and 40 external ones; of
    100 candidates 20 are of each client, and the rest of nobody.
    """
    rng = np.random.default_rng([seed, 11])
    sizes = (100, *(60, 40) * clients)
    owner = np.concatenate([
        np.repeat([*range(clients), NOBODY], [20] * clients + [100 - 20 * clients]),
        *(np.repeat([k, NOBODY, NOBODY], [30, 30, 40]) for k in range(clients)),
    ])  # fmt: skip
    y = rng.integers(0, classes, len(owner))
    targets: list[Target] = []
    for k in range(clients):
        centre = 4 * np.eye(classes) + rng.normal(size=(classes, classes))
        spread = np.where(owner == k, 1 - 0.95 * leak, 1.0)[:, None]
        own = sure * np.eye(classes)[y] * (owner == k)[:, None]
        logits = centre[y] + own + 2 * spread * rng.normal(size=(len(y), classes))
        probabilities = to_probabilities(logits, "logits", len(y))
        targets.append(TableTarget(probabilities, OFFERS, logits))
    edges = np.cumsum((0, *sizes))
    parts = [np.arange(a, b) for a, b in itertools.pairwise(edges)]
    sets = [Records(rows, y[rows]) for rows in parts]
    members = tuple(owner[parts[1 + 2 * k]] == k for k in range(clients))
    colluder = clients - 1
    view = FederationView(
        tuple(targets), sets[0], tuple(sets[1::2]), tuple(sets[2::2]),
        Collusion(colluder, members[colluder], owner[:100] == colluder),
        TableUpdates(
            tuple(_draw_round(owner, leak, clients, rng) for _ in range(ROUNDS)),
            tuple(str(k) for k in range(clients)),
        ),
    )  # fmt: skip
    return AssignmentGame(Game(view, Assignment(owner[:100])), members)


def _draw_round(
    owner: Int[np.ndarray, " records"], leak: float, clients: int, rng: np.random.Generator
) -> RoundSignals:
    """What a round says where a member's gradient stands out by several standard deviations."""
    own = 6 * leak * (owner[:, None] == np.arange(clients))
    hard = rng.normal(size=(len(owner), 1))
    noise = rng.normal(size=(2, len(owner), clients))
    return RoundSignals(
        np.exp(0.2 * (hard + noise[0] - own)), noise[1] + own, np.exp(0.2 * hard[:, 0]),
        np.ones(clients),
    )  # fmt: skip
