"""Clients who keep their last layer."""

import numpy as np
import pytest

from divulge.core import UpdateDefence
from divulge.defences import OwnLastLayer, TopK, chain
from divulge.errors import DataError

from . import rounds

LIKE = {
    "body.weight": np.zeros((4, 6), np.float32),
    "body.bias": np.zeros(4, np.float32),
    "head.weight": np.zeros((3, 4), np.float32),
    "head.bias": np.zeros(3, np.float32),
}


def test_nothing_of_the_last_layer_is_sent_and_all_of_the_others() -> None:
    update = rounds.update(0, LIKE)
    context = rounds.begin(OwnLastLayer(), like=LIKE)[0]
    sent = OwnLastLayer().on_client(update, context)
    for name, value in sent.items():
        expected = np.zeros_like(value) if name.startswith("head") else update[name]
        np.testing.assert_array_equal(value, expected)
        assert value.dtype == update[name].dtype


def test_without_a_fully_connected_layer_there_is_nothing_to_keep() -> None:
    like = {"scale": np.zeros(3, np.float32)}
    context = rounds.begin(OwnLastLayer(), like=like)[0]
    with pytest.raises(DataError, match="fully connected last layer"):
        OwnLastLayer().on_client(rounds.update(0, like), context)


def test_its_models_are_the_clients_own() -> None:
    assert OwnLastLayer().personal
    assert chain(OwnLastLayer(), TopK()).personal
    assert not chain(TopK()).personal
    assert not UpdateDefence().personal
