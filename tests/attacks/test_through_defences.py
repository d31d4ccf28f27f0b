"""Attacks by servers that know the update defence: they simulate it, or work around it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from divulge.attacks import Decaf  # noqa: E402
from divulge.attacks.shared.refitted_layer import refit_last_layer  # noqa: E402
from divulge.core import OutputLayerNames, Proportions, Records, UpdateDefence  # noqa: E402
from divulge.defences import LocalNoise, OwnLastLayer, Sign  # noqa: E402
from divulge.errors import SpecError  # noqa: E402
from divulge.federation import Federation, dirichlet, simulate  # noqa: E402
from divulge.metrics import composition  # noqa: E402
from divulge.targets.torch import TorchTarget  # noqa: E402
from divulge.training import Recipe  # noqa: E402
from divulge.training.engine.networks import load_network  # noqa: E402

from ..defences import trained_table as table  # noqa: E402

POOL, REFERENCE, TEST = table.draw(480, 0), table.draw(200, 1), table.draw(300, 2)
RECIPE = Recipe(table.network, lr=0.2, epochs=3, batch_size=10)


def federation(defence: UpdateDefence, pool: Records = POOL, **more: Any) -> Federation:
    clients = dirichlet(pool, [40] * 12, 0.5, 0)
    return Federation(pool, clients, replace(RECIPE, **more), defence=defence, workers=1)


def distance(defence: UpdateDefence, told: dict[str, Any] | None) -> float:
    """The mean L1 distance of guesses about clients who send through a defence."""
    asked = federation(defence)
    transcript = simulate(asked, 2)
    views = [transcript.view(str(k), table.network, REFERENCE) for k in range(12)]
    attack = Decaf(level="virtual", clients=60, rounds=2, defence=told)
    guesses = attack.many(views, np.random.default_rng(0))
    truths = [
        Proportions.of(np.bincount(POOL.y[rows], minlength=table.CLASSES)) for rows in asked.clients
    ]
    return composition.distances(guesses, truths)["l1"].value


@pytest.mark.parametrize(
    "defence",
    [Sign(), OwnLastLayer(), LocalNoise(epsilon=300.0, delta=1e-5, clip=0.5)],
    ids=lambda one: one.name,
)
def test_decaf_reads_more_where_virtual_clients_send_through_the_defence(
    defence: UpdateDefence,
) -> None:
    told: dict[str, Any] = {"name": defence.name}
    if isinstance(defence, LocalNoise):
        told |= {"epsilon": 300.0, "delta": 1e-5, "clip": 0.5}
    knowing, blind = distance(defence, told), distance(defence, None)
    assert knowing < blind
    # two mixes drawn as these clients' are apart by about .8
    assert knowing < 0.45


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"name": "top-kk"}, "did you mean 'top-k'"),
        ({"name": "top-k", "share": 2.0}, "share above 0"),
        ({}, "an update defence"),
    ],
)
def test_defences_that_there_are_not_are_refused(told: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Decaf(defence=told)


def accuracy(state: Any, network: Any = table.network) -> float:
    answers = TorchTarget(load_network(network, state), "logits").predict(TEST.x)
    return float((answers.argmax(axis=1) == TEST.y).mean())


def test_a_server_fits_last_layers_that_it_never_sees() -> None:
    played = simulate(federation(OwnLastLayer()), 3).rounds[2]
    found = refit_last_layer(played, table.network, REFERENCE)
    layer = OutputLayerNames.of({name: one.shape for name, one in played.sent.items()})
    for client in played.received:
        change, refitted = played.change(client), found.change(client)
        assert not change[layer.weight].any()
        assert refitted[layer.weight].any()
        for name in played.sent:
            if name not in layer:
                np.testing.assert_array_equal(refitted[name], change[name])
                np.testing.assert_array_equal(found.sent[name], played.sent[name])
        mine = {name: found.sent[name] + refitted[name] for name in found.sent}
        # one of four labels is wrong, and the last layer as it was sent is untrained
        assert accuracy(mine) > 0.65
    assert accuracy(played.sent) < accuracy(found.sent)


def two_classes() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(table.FEATURES, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2, bias=False)
    )


def test_two_classes_without_biases_are_fitted_too() -> None:
    pool, reference = (replace(one, y=(one.y > 0).astype(np.int64)) for one in (POOL, REFERENCE))
    asked = federation(OwnLastLayer(), pool, network=two_classes)
    found = refit_last_layer(simulate(asked, 2).rounds[1], two_classes, reference)
    answers = TorchTarget(load_network(two_classes, found.sent), "logits").predict(TEST.x)
    assert (answers.argmax(axis=1) == (TEST.y > 0)).mean() > 0.7


def test_a_class_without_a_record_of_the_server_is_never_answered() -> None:
    played = simulate(federation(OwnLastLayer()), 1).rounds[0]
    some = REFERENCE.take(np.flatnonzero(REFERENCE.y != 1))
    found = refit_last_layer(played, table.network, some)
    answers = TorchTarget(load_network(table.network, found.sent), "logits").predict(TEST.x)
    assert set(answers.argmax(axis=1)) == {0, 2}
