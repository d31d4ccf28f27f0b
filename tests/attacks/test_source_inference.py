"""SIA names the client whose model has the least loss on a record."""

import dataclasses

import numpy as np

from divulge.attacks import catalog
from divulge.core import NOBODY
from divulge.testing import clients

VIEW = clients.draw_game(0, leak=1.0, sure=2.0).challenge.view
SIA = catalog.federation_attack("sia")
OWN = VIEW.collusion


def test_the_least_loss_by_hand() -> None:
    guess = SIA(VIEW, np.random.default_rng(0))
    assert guess.score is not None
    for i, (x, y) in enumerate(zip(VIEW.records.x, VIEW.records.y, strict=True)):
        p = [VIEW.targets[k].predict(np.array([x]))[0, y] for k in range(2)]
        losses = [-np.log(one) for one in p]
        assert guess.client[i] == (OWN.client if OWN.records[i] else losses.index(min(losses)))
        np.testing.assert_allclose(guess.score[i], [*(np.array(p) / sum(p)), OWN.records[i]])


def test_it_never_says_nobody() -> None:
    assert not (SIA(VIEW, np.random.default_rng(0)).client == NOBODY).any()


def test_the_colluding_client_is_asked_nothing() -> None:
    """Whichever client colludes, it is no answer for records that it knows not to be its own."""
    own = dataclasses.replace(OWN, client=0, relevant=np.zeros(len(VIEW.relevant[0]), bool))
    guess = SIA(dataclasses.replace(VIEW, collusion=own), np.random.default_rng(0))
    assert set(guess.client[~own.records].tolist()) == {1, 2}
