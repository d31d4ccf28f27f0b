"""Losses by tier, cross-validation on the colluding client, and accuracy by round."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from divulge.attacks.assignment.stacking import attack
from divulge.core import Records
from divulge.errors import NotApplicable
from divulge.testing import clients
from divulge_papers.papers.nist import losses, study, utility


def test_members_have_lower_losses_and_every_record_of_a_client_is_one_or_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(losses, "load_game", lambda *_: clients.draw_game(0, leak=0.0, sure=4.0))
    inside, outside = (
        losses.measure_losses(
            0, "small", folder=tmp_path, origin="SoyNAM", tier="no DP", member=member
        ).values
        for member in (True, False)
    )
    assert set(inside) == {"mean", *losses.QUANTILES}
    assert all(inside[column][0] < outside[column][0] for column in inside)
    deciles = [inside[column][0] for column in losses.QUANTILES]
    assert deciles == sorted(deciles)


def test_the_constant_answer_is_right_about_all_but_the_members(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    game = clients.draw_game(0)
    monkeypatch.setattr(study, "load_game", lambda *_: game)
    found = study.measure_validation(
        0, "small", folder=tmp_path, origin="SoyNAM", tier="no DP", guess=False
    ).values["accuracy"]
    own = game.challenge.view.collusion
    members = int(own.relevant.sum() + own.records.sum())
    assert len(found) == 60 + 40 + 100
    assert sum(found) == len(found) - members


def test_ten_folds_share_both_groups_out_evenly() -> None:
    group = np.arange(116) < 13
    fold = attack._stratified_folds(group, np.random.default_rng(0), 10)
    assert np.ptp(np.bincount(fold[group], minlength=10)) == 1
    assert np.ptp(np.bincount(fold[~group], minlength=10)) == 1


@pytest.mark.parametrize("epsilon", [None, 200.0])
def test_every_held_out_record_is_right_or_wrong_after_each_round(
    epsilon: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 4, 60)
    pool = Records((random.random((60, 40)) < 0.2 + 0.2 * y[:, None]).astype(np.float32), y)
    monkeypatch.setattr(utility, "_draw_families", lambda *_: pool)
    monkeypatch.setattr(utility, "ROUNDS", 2)
    monkeypatch.setattr(utility, "SHOWN", {"1 rounds": 1, "2 rounds": 2})
    found = utility.measure_utility(0, "small", epsilon=epsilon, epochs=1).values
    assert set(found) == {"1 rounds", "2 rounds"}
    for values in found.values():
        assert len(values) == 12
        assert set(values) <= {0.0, 1.0}


def test_what_takes_hours_is_left_to_size_paper() -> None:
    with pytest.raises(NotApplicable, match="size paper"):
        utility.measure_utility(0, "small", epsilon=None, epochs=5)
