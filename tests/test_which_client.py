"""The clients of the challenge can be trained, privately and not, on a small piece of it."""

import numpy as np
import pytest

from leakscope.core import Records
from leakscope.data import genomics
from leakscope.federation import apart

pytest.importorskip("opacus")


@pytest.mark.parametrize("epsilon", [None, 200.0])
def test_clients_train_on_made_genotypes(epsilon: float | None) -> None:
    from benchmarks.which_client import _genome

    rng = np.random.default_rng(0)
    genotypes, y = genomics.synthetic(120, 30, rng)
    pool = Records(genomics.one_hot(genotypes), y)
    trainer = _genome(pool.x.shape[1], epsilon, epochs=2)
    game = apart.play(pool, trainer, (30, 20), rng)
    for target in game.challenge.view.targets:
        p = target.predict(np.arange(len(pool)))
        assert p.shape == (120, 4)
        assert np.isfinite(p).all()
        assert (np.ptp(p, axis=0) > 0).all()
