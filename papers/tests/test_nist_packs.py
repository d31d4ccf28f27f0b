"""Replicates of the stacking paper's federations: packs first, and then what is trained, once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from divulge.core import Records, Target
from divulge.targets.function import FunctionTarget
from divulge_papers.attempts import RowResult
from divulge_papers.papers.nist import federations as nist_federations
from divulge_papers.papers.nist import games, study
from tests import federations


class Counting:
    """Trains nothing, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.asked = 0

    def many(self, pool: Records, subsets: np.ndarray, seeds: Sequence[int]) -> Iterator[Target]:
        del pool, subsets
        self.asked += 1
        for k in range(len(seeds)):
            yield FunctionTarget(lambda x, k=k: np.eye(4)[np.full(len(x), k)])


def test_no_federation_is_trained_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Counting()
    monkeypatch.setattr(nist_federations, "client_trainer", lambda *_: trainer)
    nist_federations.train_federation.cache_clear()
    first = games.load_game(7, "small", tmp_path, "synthetic", "ε = 10")
    nist_federations.train_federation.cache_clear()
    again = games.load_game(7, "small", tmp_path, "synthetic", "ε = 10")
    nist_federations.train_federation.cache_clear()
    assert trainer.asked == 1
    for one, other in zip(first.challenge.view.targets, again.challenge.view.targets, strict=True):
        rows = np.arange(nist_federations.LINES)
        np.testing.assert_array_equal(one.predict(rows), other.predict(rows))
    np.testing.assert_array_equal(first.challenge.truth.client, again.challenge.truth.client)


@pytest.mark.parametrize(("origin", "tier"), games.REPLICATE_GROUPS)
def test_packs_come_first(
    origin: nist_federations.GenotypeOrigin, tier: str, tmp_path: Path
) -> None:
    wanted = games.TIERS[tier]
    for seed, name in enumerate(wanted.packs(origin)):
        federations.shared_file(f"nist-soybean/logits_{name}.npz.xz")
        played = games.load_game(seed, "small", tmp_path, origin, tier)
        same = federations.pack(name, wanted.code)
        np.testing.assert_array_equal(played.challenge.truth.client, same.challenge.truth.client)


def test_stacking_is_crossfitted_to_the_first_federations_alone(tmp_path: Path) -> None:
    seed = study.CROSSFIT_SEEDS["small"]
    assert seed < study.SEEDS["small"]
    about: dict[str, Any] = {"folder": tmp_path, "origin": "synthetic", "tier": "no DP"}
    crossfit: dict[str, Any] = {"protocol": "crossfit"}
    nothing = RowResult({})
    found = study.measure_assignment(seed, "small", attack="stacking", settings=crossfit, **about)
    assert found == nothing
    assert study.measure_on_colluder(seed, "small", **about, **crossfit) == nothing
