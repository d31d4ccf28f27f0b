"""Which entries of a network's gradients, or of a round's changes, are kept of each step."""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float64, Int64

ENTRIES = 2048
"""Number of entries that are kept, about."""

_PARTS = 32

Places = Int64[np.ndarray, " places"]


class EntrySample:
    """Some entries of each tensor; of many tensors, of each run of neighbouring ones.

    Args:
        sizes: the number of entries of each tensor, by name.
        rng: draws the entries.
    """

    def __init__(self, sizes: Mapping[str, int], rng: np.random.Generator) -> None:
        runs = np.array_split(np.array(list(sizes)), max(1, min(len(sizes), _PARTS)))
        self._chosen: dict[str, list[tuple[str, Places, Places]]] = {}
        self.parts: dict[str, int] = {}
        """How many entries are kept of each part, by name."""
        for names in (run.tolist() for run in runs if len(run)):
            label = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
            ends = np.cumsum([sizes[name] for name in names])
            drawn = rng.permutation(ends[-1])[: max(1, ENTRIES // len(runs))]
            owner = np.searchsorted(ends, drawn, side="right")
            self.parts[label] = len(drawn)
            self._chosen[label] = [
                (name, drawn[owner == at] - (ends[at] - sizes[name]), np.flatnonzero(owner == at))
                for at, name in enumerate(names)
            ]

    def take(
        self, read: Callable[[str, Places], np.ndarray | None]
    ) -> Float64[np.ndarray, " entries"]:
        """The entries, part by part, in an order drawn by chance.

        Args:
            read: from the name of a tensor and places in it to its entries; None, which becomes
                NaN, where it has none.
        """
        taken = []
        for label, chosen in self._chosen.items():
            part = np.full(self.parts[label], np.nan)
            for name, places, order in chosen:
                values = read(name, places)
                if values is not None:
                    part[order] = values
            taken.append(part)
        return np.concatenate([np.zeros(0), *taken])
