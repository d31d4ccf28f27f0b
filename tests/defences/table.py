"""What every update defence must do, written once; each function asserts one property."""

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from divulge.core import ClientUpdates, Guarantee, ServerView, Update, UpdateDefence, UpdateSum
from divulge.defences.updates import protocol
from divulge.errors import DataError

from . import rounds

Property = Callable[[UpdateDefence], None]
UPDATES = {client: rounds.update(client) for client in (4, 7, 11)}


def seen(view: ServerView) -> Mapping[int, Update]:
    """What the server sees, by client; the sum has the number -1."""
    return {-1: view.total} if isinstance(view, UpdateSum) else view.by_client


def assert_same(one: Mapping[int, Update], two: Mapping[int, Update]) -> None:
    assert one.keys() == two.keys()
    for client in one:
        assert one[client].keys() == two[client].keys()
        for name in one[client]:
            np.testing.assert_array_equal(one[client][name], two[client][name])


def keeps_names_and_shapes(defence: UpdateDefence) -> None:
    view = rounds.play(defence, UPDATES)
    for sent in seen(view).values():
        assert {name: value.shape for name, value in sent.items()} == {
            name: value.shape for name, value in rounds.WEIGHTS.items()
        }
        assert all(np.isfinite(value).all() for value in sent.values())


def keeps_types_or_says_a_sum(defence: UpdateDefence) -> None:
    view = rounds.play(defence, UPDATES)
    if isinstance(view, ClientUpdates):
        for sent in view.by_client.values():
            assert all(sent[name].dtype == rounds.WEIGHTS[name].dtype for name in sent)
    else:
        assert defence.masks or defence.weighs_equally  # a trusted server releases the mean
        assert all(value.dtype == np.float64 for value in view.total.values())


def leaves_the_update_alone(defence: UpdateDefence) -> None:
    update = rounds.update(0)
    before = copy.deepcopy(update)
    for value in update.values():
        value.flags.writeable = False
    contexts = rounds.begin(defence)
    defence.on_client(update, contexts[0])
    assert_same({0: before}, {0: update})


def repeats_itself(defence: UpdateDefence) -> None:
    """Keys are fresh each time and not from the seed; what the server sees is the same anyway."""
    assert_same(
        seen(rounds.play(defence, UPDATES, seed=5)), seen(rounds.play(defence, UPDATES, seed=5))
    )


def shares_no_randomness(defence: UpdateDefence) -> None:
    """Two clients with one update, or one client in two rounds, draw different numbers."""
    contexts = {number: rounds.begin(defence, number=number) for number in (1, 2)}
    draws = [
        float(context.noise.add_normal(np.zeros(1), 1.0)[0])
        for by_client in contexts.values()
        for context in by_client.values()
    ]
    assert len(set(draws)) == len(draws)


def deals_with_what_is_not_finite(defence: UpdateDefence) -> None:
    """Refused by name; where something is promised it counts as zeros, and nobody is told."""
    zeros = {name: np.zeros_like(value) for name, value in rounds.update(0).items()}
    for bad in (np.nan, np.inf, -np.inf):
        update = copy.deepcopy(dict(rounds.update(0)))
        update["layer.bias"][1] = bad
        if defence.promises:
            broken = seen(rounds.play(defence, {**UPDATES, 4: update}))
            assert_same(broken, seen(rounds.play(defence, {**UPDATES, 4: zeros})))
            if not defence.masks:  # masks are fresh in each round
                sent = (defence.on_client(one, rounds.begin(defence)[0]) for one in (update, zeros))
                assert_same(*({0: one} for one in sent))
            continue
        with pytest.raises(DataError, match=r"layer\.bias.*NaN or infinity in 1 of 3"):
            protocol.send(defence, update, rounds.begin(defence)[0])
        if defence.name not in ("none", "chain"):
            with pytest.raises(DataError, match="finite"):
                defence.on_client(update, rounds.begin(defence)[0])


def refuses_an_empty_update(defence: UpdateDefence) -> None:
    for empty in ({}, {"nothing": np.zeros((0, 2))}):
        with pytest.raises(DataError, match="empty"):
            protocol.send(defence, empty, rounds.begin(defence, like=empty)[0])


def refuses_other_types(defence: UpdateDefence) -> None:
    for kind in (np.int64, np.complex128, object):
        update = {name: value.astype(kind) for name, value in rounds.update(0).items()}
        with pytest.raises(DataError, match="of floating point"):
            protocol.send(defence, update, rounds.begin(defence)[0])


def survives_extremes(defence: UpdateDefence) -> None:
    """Zeros, subnormals and the largest floats: changed; beyond the range of a sum, refused."""
    for value in (0.0, 5e-324, 1.7e308, -1.7e308):
        update = {"w": np.full((2, 3), value)}
        contexts = rounds.begin(defence, like=update)
        if defence.masks and abs(value) > 1 and defence.name != "chain":
            with pytest.raises(DataError, match="entries up to"):
                defence.on_client(update, contexts[0])
        else:
            sent = defence.on_client(update, contexts[0])
            assert np.isfinite(np.asarray(sent["w"], np.float64)).all()


def names_a_guarantee_or_none(defence: UpdateDefence) -> None:
    for count in (1, 50):
        promised = defence.guarantee(count)
        assert promised is None or isinstance(promised, Guarantee)
        if promised is not None:
            assert promised.mechanism
            assert promised.epsilon >= (defence.guarantee() or promised).epsilon


def has_settings_that_json_can_hold(defence: UpdateDefence) -> None:
    json.dumps(dataclasses.asdict(defence))
    assert defence == dataclasses.replace(defence)
    assert hash(defence) == hash(dataclasses.replace(defence))


def names_its_paper(defence: UpdateDefence) -> None:
    assert defence.name
    assert defence.paper or defence.name in ("none", "chain")
    assert len((type(defence).__doc__ or "").splitlines()[0]) > 20


PROPERTIES: tuple[Property, ...] = (
    keeps_names_and_shapes,
    keeps_types_or_says_a_sum,
    leaves_the_update_alone,
    repeats_itself,
    shares_no_randomness,
    deals_with_what_is_not_finite,
    refuses_an_empty_update,
    refuses_other_types,
    survives_extremes,
    names_a_guarantee_or_none,
    has_settings_that_json_can_hold,
    names_its_paper,
)
