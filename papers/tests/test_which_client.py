"""The clients of the challenge can be trained, privately and not, on a small piece of it."""

import numpy as np
import pytest

from divulge.core import Records
from divulge.federation import local_models
from divulge.testing import clients
from divulge_papers.papers.nist import genomics

pytest.importorskip("opacus")


@pytest.mark.parametrize("epsilon", [None, 200.0])
def test_clients_train_on_made_genotypes(epsilon: float | None) -> None:
    from divulge_papers.papers.nist.federations import client_trainer

    rng = np.random.default_rng(0)
    genotypes, y = genomics.make_synthetic(120, 30, rng)
    pool = Records(genomics.one_hot(genotypes), y)
    trainer = client_trainer(pool.x.shape[1], epsilon, epochs=2)
    game = local_models.simulate_local_models(pool, trainer, (30, 20), rng)
    for target in game.challenge.view.targets:
        p = target.predict(np.arange(len(pool)))
        assert p.shape == (120, 4)
        assert np.isfinite(p).all()
        assert (np.ptp(p, axis=0) > 0).all()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
def test_relevant_records_get_the_share_of_non_members_that_is_asked_for(share: float) -> None:
    from benchmarks.label_noise import add_label_noise

    made = clients.draw_game(0)
    changed = add_label_noise(made, share)
    view = changed.challenge.view
    for records, members, before in zip(
        view.relevant, changed.relevant, made.challenge.view.relevant, strict=True
    ):
        assert len(records) == len(members) == 30
        assert 1 - members.mean() == pytest.approx(share)
        assert set(records.x) <= set(before.x)
    np.testing.assert_array_equal(view.collusion.relevant, changed.relevant[-1])
    assert changed.challenge.truth is made.challenge.truth


def test_models_that_leak_nothing_are_dealt_from_non_members_alone() -> None:
    from benchmarks.false_claims import _deal_views

    made = clients.draw_game(0)
    views = list(_deal_views(made, times=2))
    assert len(views) == 6
    for view in views:
        assert view.reference is not None
        # of 60 relevant, 40 external and 100 candidates 30 and 20 are members
        assert len(view.records) + len(view.reference) == 150
