"""Cache simulated trainings that several rows share."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Bool, Float
from torch import Tensor

from divulge._util.digest import digest
from divulge.federation.recommender.model import ITEMS, NeuralCF

_CACHE_SIZE = 510
"""Number of cached trainings of 30 users, 16 simulated and one of shuffled clicks for each: 70 MB
for MovieLens-100K."""


@dataclass(frozen=True, slots=True)
class CachingNeuralCF(NeuralCF):
    """Trains as FNCF, and caches the item embeddings of each training of one user.

    Against other noise an attack with the same seed simulates the same trainings.
    """

    def update(
        self,
        sent: Mapping[str, Tensor],
        items: Float[Tensor, "*users items width"],
        interactions: Float[Tensor, "*users items"],
        private: Float[Tensor, "*users width"] | None = None,
        real: Bool[Tensor, "*users items"] | None = None,
    ) -> dict[str, Tensor]:
        """Train, and return the change; for one user only that of the item embeddings.

        A training that is to be differentiated, as `match` does, is not cached.
        """
        once = interactions.requires_grad or (private is not None and private.requires_grad)
        if once or items.ndim == 3 or private is None or real is not None:
            return NeuralCF.update(self, sent, items, interactions, private, real)
        network = (tensor for name, tensor in sent.items() if name != ITEMS)
        key = digest("", *(each.numpy() for each in (items, interactions, private, *network)))
        return {ITEMS: _train_items(self, _UserTraining(key, sent, items, interactions, private))}


@dataclass(frozen=True, slots=True)
class _UserTraining:
    """Inputs of one user's training."""

    digest: str
    sent: Mapping[str, Tensor] = field(compare=False)
    items: Float[Tensor, "items width"] = field(compare=False)
    interactions: Float[Tensor, " items"] = field(compare=False)
    private: Float[Tensor, " width"] = field(compare=False)


@functools.lru_cache(maxsize=_CACHE_SIZE)
def _train_items(learner: CachingNeuralCF, of: _UserTraining) -> Float[Tensor, "items width"]:
    return NeuralCF.update(learner, of.sent, of.items, of.interactions, of.private)[ITEMS]
