"""What every trainer must do, and every defence that is trained in; each function asserts one."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divulge.attacks import catalog as attacks_catalog
from divulge.core import Game, Membership, ModelView, Records, Target, Trainer
from divulge.defences import catalog
from divulge.errors import DataError, SpecError
from divulge.secrets import attempt
from divulge.training.fleet import Fleet
from divulge.training.recipe import Recipe
from divulge.training.trainers import as_trainer, trainer_identity

Property = Callable[[Any], None]
FEATURES, CLASSES = 12, 3


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES))


RECIPE = Recipe(network, "adam", lr=0.01, epochs=15, batch_size=16, held_out=0.3, select="accuracy")


def draw(records: int, seed: int) -> Records:
    """Three clouds; every fourth label is another one, which can only be learned by heart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, records)
    x = rng.normal(size=(records, FEATURES)) + 2.5 * np.eye(FEATURES)[y]
    wrong = rng.random(records) < 0.25
    return Records(x.astype(np.float32), np.where(wrong, rng.integers(0, CLASSES, records), y))


POOL, OTHERS = draw(80, 0), draw(400, 1)
HALVES = np.arange(80) < np.array([[40], [50]])


def trained(
    defence: Trainer, pool: Records | None = None, seeds: tuple[int, int] = (1, 2)
) -> list[Target]:
    return list(defence.many(POOL if pool is None else pool, HALVES, seeds))


def learns(defence: Any) -> None:
    for target in trained(defence):
        answers = target.predict(OTHERS.x)
        assert answers.shape == (len(OTHERS), CLASSES)
        np.testing.assert_allclose(answers.sum(axis=1), 1, rtol=1e-6)
        # with one of four labels wrong .83 is the most; .33 is chance
        assert (answers.argmax(axis=1) == OTHERS.y).mean() > 0.5


def repeats_itself_and_leaves_other_random_numbers_alone(defence: Trainer) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, again, other = (trained(defence, seeds=seeds) for seeds in ((1, 2), (1, 2), (3, 2)))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(one[0].predict(POOL.x), again[0].predict(POOL.x))
    np.testing.assert_array_equal(one[1].predict(POOL.x), other[1].predict(POOL.x))
    assert not np.allclose(one[0].predict(POOL.x), other[0].predict(POOL.x))


def reads_its_own_records_alone(defence: Trainer) -> None:
    """The second half of the pool is nobody's: other records there change nothing."""
    x, y = POOL.x.copy(), POOL.y.copy()
    x[50:], y[50:] = -5.0, 0
    one, other = (trained(defence, pool) for pool in (POOL, Records(x, y)))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left.predict(OTHERS.x), right.predict(OTHERS.x))


def leaves_the_pool_alone(defence: Trainer) -> None:
    """Nor does it need to write to it."""
    x, y = POOL.x.copy(), POOL.y.copy()
    for array in (locked := Records(x.copy(), y.copy())).x, locked.y:
        array.flags.writeable = False
    trained(defence, locked)
    np.testing.assert_array_equal(locked.x, x)
    np.testing.assert_array_equal(locked.y, y)


def leaves_the_recipe_alone(defence: Any) -> None:
    before = trainer_identity(defence.recipe)
    trained(defence)
    assert trainer_identity(defence.recipe) == before


def refuses_an_empty_subset(defence: Trainer) -> None:
    with pytest.raises(DataError, match="records in every subset"):
        list(defence.many(POOL, np.zeros((1, len(POOL)), np.bool_), [1]))
    assert not list(defence.many(POOL, np.zeros((0, len(POOL)), np.bool_), []))


def is_settings(defence: Any) -> None:
    assert defence == dataclasses.replace(defence)
    with pytest.raises(dataclasses.FrozenInstanceError):
        defence.recipe = None
    # how it is computed is no part of what is trained
    assert trainer_identity(dataclasses.replace(defence)) == trainer_identity(defence)
    assert trainer_identity(defence) != trainer_identity(Fleet(defence.recipe))
    assert as_trainer(defence) is defence


def refuses_unknown_settings_in_words(defence: Any) -> None:
    with pytest.raises(SpecError, match=f"a setting of {defence.name}, got 'nonsense'"):
        catalog.trained_defence(defence.name, RECIPE, nonsense=1)


def names_its_paper(defence: Any) -> None:
    assert defence.paper
    assert defence.paper.split()[-1].isdigit()
    assert len((type(defence).__doc__ or "").splitlines()[0]) > 20


def shows_what_its_models_would_be_had_training_ended_earlier(defence: Any) -> None:
    """Where a defence can show that; teachers are trained for all epochs."""
    if not getattr(defence, "staged", False):
        return
    alone = dataclasses.replace(defence, way="one-by-one", workers=1)
    found = list(alone.stages(POOL, HALVES, (1, 2), (2, 15)))
    for place, stop in enumerate((2, 15)):
        recipe = dataclasses.replace(defence.recipe, stop_after=stop)
        ended = trained(dataclasses.replace(alone, recipe=recipe))
        for models, one in zip(found, ended, strict=True):
            np.testing.assert_array_equal(models[place].predict(OTHERS.x), one.predict(OTHERS.x))


OF_TRAINERS: tuple[Property, ...] = (
    learns,
    repeats_itself_and_leaves_other_random_numbers_alone,
    reads_its_own_records_alone,
    leaves_the_pool_alone,
    refuses_an_empty_subset,
)
PROPERTIES: tuple[Property, ...] = (
    *OF_TRAINERS,
    leaves_the_recipe_alone,
    is_settings,
    refuses_unknown_settings_in_words,
    names_its_paper,
    shows_what_its_models_would_be_had_training_ended_earlier,
)


def leak(trainer: Trainer) -> float:
    """The AUC of a threshold on the loss, over four models on eighty records each."""
    pool = draw(160, 2)
    subsets = np.stack([np.random.default_rng(k).permutation(160) < 80 for k in range(4)])
    found = []
    for target, subset in zip(trainer.many(pool, subsets, range(4)), subsets, strict=True):
        challenge = Game(ModelView(target, pool), Membership(subset))
        found.append(
            attempt.run_on_model(challenge, attacks_catalog.attack("threshold"), 0).finding
        )
    return float(np.mean([finding.metrics["auc"].value for finding in found]))
