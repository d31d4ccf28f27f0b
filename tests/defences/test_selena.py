"""Self-distillation: whose answers teach whom."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from divulge._util.random import stream
from divulge.core import Records
from divulge.defences.training.complementary import ComplementaryDistillation
from divulge.defences.training.distillation import SoftLabelLoss
from divulge.defences.training.selena import SELENA
from divulge.errors import DataError, SpecError
from divulge.training.engine.loop import Job
from divulge.training.fleet import Fleet
from divulge.training.tensors import PoolTensors

from . import trained_table as table

RECIPE = replace(table.RECIPE, epochs=3)
SELENA_ = SELENA(RECIPE, models=5, left_out=2, way="one-by-one", workers=1)
JOB = Job(np.arange(10, 50), 7)


def test_a_soft_label_is_the_mean_of_those_that_never_saw_the_record() -> None:
    fit, held_out = RECIPE.split_rows(JOB.rows, JOB.seed)
    unseen = SELENA_.exclude(len(fit), JOB.seed)
    assert unseen.shape == (5, len(fit))
    assert (unseen.sum(axis=0) == 2).all()
    labels = SELENA_.soft_labels(table.POOL, JOB).numpy()
    # one after another, each by itself
    seeds = stream(JOB.seed, "sub-models").integers(2**31, size=5).tolist()
    said = []
    for hidden, seed in zip(unseen, seeds, strict=True):
        chosen = np.isin(np.arange(80), fit[~hidden])[None]
        plain = Fleet(replace(RECIPE, select=None), "one-by-one", 1)
        (target,) = plain.many(table.POOL, chosen, [seed])
        said.append(target.predict(table.POOL.x))
    for column, row in enumerate(fit):
        own = [said[k][row] for k in range(5) if unseen[k, column]]
        np.testing.assert_allclose(labels[row], np.mean(own, axis=0), rtol=1e-5)
    rest = np.setdiff1d(np.arange(80), fit)
    assert set(held_out) <= set(rest)
    assert not labels[rest].any()


def test_the_own_label_of_a_record_has_no_part_in_its_soft_label() -> None:
    """Nobody who answers for a record has learned its label: another one changes nothing."""
    fit, _ = RECIPE.split_rows(JOB.rows, JOB.seed)
    row = int(fit[3])
    y = table.POOL.y.copy()
    y[row] = (y[row] + 1) % table.CLASSES
    one, other = (
        SELENA_.soft_labels(pool, JOB).numpy() for pool in (table.POOL, Records(table.POOL.x, y))
    )
    np.testing.assert_array_equal(one[row], other[row])
    assert not np.array_equal(one, other)  # it has a part in others'


def test_what_a_step_makes_smaller_is_the_cross_entropy_with_soft_labels() -> None:
    soft = torch.rand(80, table.CLASSES, generator=torch.Generator().manual_seed(0))
    soft /= soft.sum(1, keepdim=True)
    with torch.random.fork_rng([]):
        module = table.network()
    data = PoolTensors(torch.tensor(table.POOL.x), torch.tensor(table.POOL.y), channels_last=False)
    rows = torch.tensor([3, 70, 12])
    loss = SoftLabelLoss(soft).against(module, data, rows[:0])(0)(rows)
    log_p = module(data.x[rows]).log_softmax(1)
    by_hand = -(soft[rows] * log_p).sum(1).mean()
    torch.testing.assert_close(loss, by_hand)


def test_too_few_records_to_split_are_told() -> None:
    few = Job(np.arange(2), 1)
    with pytest.raises(DataError, match="records for each of 5 sub-models, got 1 in all"):
        SELENA_.soft_labels(table.POOL, few)


COMPLEMENTARY = ComplementaryDistillation(
    RECIPE, folds=3, temperature=2.0, way="one-by-one", workers=1
)


def test_the_teacher_of_a_part_learned_the_other_parts() -> None:
    fit, _ = RECIPE.split_rows(JOB.rows, JOB.seed)
    unseen = COMPLEMENTARY.exclude(len(fit), JOB.seed)
    assert (unseen.sum(axis=0) == 1).all()
    assert np.ptp(unseen.sum(axis=1)) <= 1
    labels = COMPLEMENTARY.soft_labels(table.POOL, JOB).numpy()
    seeds = stream(JOB.seed, "sub-models").integers(2**31, size=3).tolist()
    plain = Fleet(replace(RECIPE, select=None), "one-by-one", 1)
    for part, seed in zip(unseen, seeds, strict=True):
        others = np.isin(np.arange(80), fit[~part])[None]
        (teacher,) = plain.many(table.POOL, others, [seed])
        p = np.sqrt(teacher.predict(table.POOL.x[fit[part]]))  # a temperature of 2
        np.testing.assert_allclose(labels[fit[part]], p / p.sum(1, keepdims=True), rtol=1e-5)


def test_at_a_temperature_the_gradient_keeps_its_size() -> None:
    """For small logits T² times the loss has the gradient of the difference of logits."""
    rng = torch.Generator().manual_seed(0)
    soft = (1e-3 * torch.randn(80, 3, generator=rng, dtype=torch.float64) / 50).softmax(1)
    logits = (1e-3 * torch.randn(4, 3, generator=rng, dtype=torch.float64)).requires_grad_()
    data = PoolTensors(logits, torch.zeros(4, dtype=torch.int64), channels_last=False)
    rows = torch.arange(4)
    loss = SoftLabelLoss(soft, 50.0).against(nn.Identity(), data, rows[:0])(0)(rows)
    (gradient,) = torch.autograd.grad(loss, logits)
    taught = 50 * soft[rows].log()
    centred = (logits - logits.mean(1, keepdim=True)) - (taught - taught.mean(1, keepdim=True))
    torch.testing.assert_close(gradient, centred / (3 * 4), rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize(
    ("models", "left_out", "fits"), [(2, 1, True), (5, 4, True), (5, 0, False), (5, 5, False)]
)
def test_a_record_is_left_out_of_one_sub_model_or_more_and_not_of_all(
    models: int, left_out: int, fits: bool
) -> None:
    if fits:
        hidden = SELENA(RECIPE, models=models, left_out=left_out).exclude(6, 0)
        assert hidden.sum(axis=0).tolist() == [left_out] * 6
        return
    with pytest.raises(SpecError, match=f"got left_out={left_out} of models={models}"):
        SELENA(RECIPE, models=models, left_out=left_out)
