"""DAP: what its discriminator learns from, which weights its second term changes, its balance."""

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from divulge.core import Records
from divulge.defences.training.dap import discriminator as discriminators
from divulge.defences.training.dap.loss import DiscriminatorAdversary
from divulge.defences.training.dap.trainer import DAP
from divulge.errors import DataError, SpecError, TargetError
from divulge.training.engine import selection
from divulge.training.engine.loop import Job
from divulge.training.tensors import PoolArrays, PoolTensors

from . import trained_table as table

X, Y = torch.tensor(table.POOL.x), torch.tensor(table.POOL.y)
DATA = PoolTensors(X, Y, channels_last=False)
HELD_OUT = torch.arange(40, 80)


def seeded(make: type[nn.Module] | object, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return make()  # type: ignore[operator]


def taught() -> discriminators.MembershipEvidence:
    """Members have small losses here, as where models over-fit."""
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.5
    logits = torch.tensor(rng.normal(size=(400, 3)), dtype=torch.float32)
    y = torch.tensor(rng.integers(0, 3, 400))
    logits[torch.tensor(member), y[member]] += 3.0
    return discriminators.MembershipEvidence(discriminators.evidence(logits, y).numpy(), member)


def suspicion(d: nn.Module, logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean of -log(1 - D), record by record."""
    chances = d(discriminators.evidence(logits, y)).softmax(1)[:, 1]
    return torch.stack([-torch.log(1 - chance) for chance in chances]).mean()


def test_a_discriminator_learns_and_the_control_does_not() -> None:
    found = taught()
    seen = torch.tensor(found.evidence)
    right = []
    for make in (discriminators.train_discriminator, discriminators.random_discriminator):
        d = make(found, 1)
        assert not any(p.requires_grad for p in d.parameters())
        assert not d.training
        right.append(float((d(seen).argmax(1).numpy() == found.member).mean()))
    assert right[0] > 0.85
    assert right[1] < 0.7


def test_its_dropout_is_pytorchs_to_the_bit() -> None:
    own = discriminators.FastDropout(0.2)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        found = own(X)
        torch.manual_seed(0)
        assert torch.equal(found, nn.Dropout(0.2)(X))
    assert 0.1 < (found == 0).float().mean() < 0.3
    assert torch.equal(own.eval()(X), X)


@pytest.mark.parametrize("kind", ["trained", "random"])
def test_the_control_is_trained_against_the_discriminator_that_learned_nothing(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    nothing = discriminators.random_discriminator

    def keep(name: str) -> Any:
        def make(found: Any, seed: int) -> Any:
            made.append(name)
            return nothing(found, seed)

        return make

    monkeypatch.setattr(discriminators, "train_discriminator", keep("trained"))
    monkeypatch.setattr(discriminators, "random_discriminator", keep("random"))
    dap = DAP(table.RECIPE, shadows=2, samples="all", discriminator=kind)
    dap.train_discriminator(table.POOL, np.arange(40), 0)
    assert made == [kind]


def test_it_is_shown_what_shadows_classify_wrongly_and_who_was_trained_on() -> None:
    shadows = [seeded(table.network, seed).eval() for seed in (0, 1)]
    halves = np.arange(80) % 2 == np.array([[0], [1]])
    wrong = [(m(X).argmax(1) != Y).numpy() for m in shadows]
    some = discriminators.collect_evidence(shadows, halves, table.POOL, "misclassified")
    assert len(some.member) == sum(w.sum() for w in wrong)
    np.testing.assert_array_equal(
        some.member, np.concatenate([h[w] for h, w in zip(halves, wrong, strict=True)])
    )
    everything = discriminators.collect_evidence(shadows, halves, table.POOL, "all")
    np.testing.assert_array_equal(everything.member, halves.ravel())
    # probabilities, label and loss
    p, label, loss = np.split(everything.evidence, [3, 6], axis=1)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(label.argmax(1), np.tile(table.POOL.y, 2))
    own = p[np.arange(160), label.argmax(1)]
    np.testing.assert_allclose(loss[:, 0], -np.log(own), rtol=1e-4)


def test_too_few_wrong_answers_are_told() -> None:
    y = table.POOL.x[:, :3].argmax(1)
    shadow = nn.Linear(12, 3, bias=False)
    with torch.no_grad():
        shadow.weight.copy_(torch.eye(3, 12))
    with pytest.raises(DataError, match="classify wrongly, got 0 and 0"):
        discriminators.collect_evidence(
            [shadow], np.arange(80)[None] < 40, Records(table.POOL.x, y), "misclassified"
        )


@pytest.mark.parametrize("samples", ["misclassified", "all"])
def test_the_second_term_changes_the_last_layer_alone_by_its_gradient(
    samples: discriminators.Samples,
) -> None:
    d = discriminators.train_discriminator(taught(), 1)
    module = seeded(table.network)
    loss = DiscriminatorAdversary(d, 0.5, samples).against(module, DATA, HELD_OUT)(0)  # β is 1
    x, y = X[:20], Y[:20]
    found = torch.autograd.grad(loss(torch.arange(20)), list(module.parameters()))

    logits = module(x)
    plain = torch.autograd.grad(cross_entropy(logits, y), list(module.parameters()))
    kept = (module(x).argmax(1) != y) | (samples == "all")
    assert kept.sum() > 0
    second = suspicion(d, module(x)[kept], y[kept])
    further = torch.autograd.grad(second, list(module.parameters()))
    for got, first, more in list(zip(found, plain, further, strict=True))[:2]:
        torch.testing.assert_close(got, first)
        assert float(more.abs().max()) > 1e-6  # it would have changed these too
    for got, first, more in list(zip(found, plain, further, strict=True))[2:]:
        torch.testing.assert_close(got, first + more, rtol=1e-4, atol=1e-6)


def test_beta_balances_the_two_losses_on_records_held_out() -> None:
    d = discriminators.train_discriminator(taught(), 1)
    module = seeded(table.network).train()
    steps = DiscriminatorAdversary(d, 0.25, "misclassified").against(module, DATA, HELD_OUT)
    x, y = X[:20], Y[:20]
    with torch.no_grad():
        first, later = (float(steps(k)(torch.arange(20))) for k in (0, 1))
        held, labels = X[HELD_OUT], Y[HELD_OUT]
        wrong = module(held).argmax(1) != labels
        beta = 0.25 * cross_entropy(module(held), labels) / suspicion(d, module(held)[wrong], labels[wrong])  # fmt: skip  # noqa: E501
        kept = module(x).argmax(1) != y
        ours, its = cross_entropy(module(x), y), suspicion(d, module(x)[kept], y[kept])
    assert first == pytest.approx(float(ours + its), rel=1e-5)
    assert later == pytest.approx(float(ours + beta * its), rel=1e-5)
    assert module.training


def test_where_all_is_right_there_is_no_second_term() -> None:
    d = discriminators.random_discriminator(taught(), 1)
    module = seeded(table.network)
    y = module(X).argmax(1)
    data = PoolTensors(X, y, channels_last=False)
    steps = DiscriminatorAdversary(d, 0.25, "misclassified").against(module, data, HELD_OUT)
    with torch.no_grad():
        plain = float(cross_entropy(module(X[:9]), y[:9]))
        for epoch in (0, 1):
            assert float(steps(epoch)(torch.arange(9))) == pytest.approx(plain)


class Scaled(nn.Module):
    """Its answers are not those of its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = 2 * self.layer(x)
        return out


@pytest.mark.parametrize("network", [Scaled, nn.Identity])
def test_a_network_that_ends_otherwise_is_refused(network: type[nn.Module]) -> None:
    d = discriminators.random_discriminator(taught(), 1)
    with pytest.raises(TargetError, match="from its last linear layer"):
        DiscriminatorAdversary(d, 0.25, "all").against(seeded(network), DATA, HELD_OUT)


@pytest.mark.parametrize("r", [(), (-0.1,), (0.1, -0.1)])
def test_r_that_makes_no_sense_is_refused(r: tuple[float, ...]) -> None:
    with pytest.raises(SpecError, match="r from 0, one or more"):
        DAP(table.RECIPE, r)


def test_the_best_r_is_taken_and_public_records_teach() -> None:
    recipe = replace(table.RECIPE, epochs=3)
    how = {"shadows": 2, "samples": "all", "way": "one-by-one", "workers": 1}
    both = DAP(recipe, (0.0, 3.0), **how)  # type: ignore[arg-type]
    job = Job(np.arange(60), 1)
    found = both.train_protected(table.POOL, job)
    assert isinstance(found.recipe.loss, DiscriminatorAdversary)
    data = PoolArrays.prepare(table.POOL, found.module).tensors("cpu")
    parts = recipe.split_rows(job.rows, job.seed)
    alone = {r: replace(both, r=(r,)).train_protected(table.POOL, job).module for r in both.r}
    merits = {r: selection.merit("aop", module, data, *parts) for r, module in alone.items()}
    assert merits[0.0] != merits[3.0]
    assert merits[found.recipe.loss.r] == max(merits.values())
    chosen = alone[found.recipe.loss.r]
    for one, other in zip(found.module.parameters(), chosen.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)  # trained in a stack
    public = replace(both, r=(3.0,), public=table.draw(100, 5)).train_protected(table.POOL, job)
    private = replace(both, r=(3.0,)).train_protected(table.POOL, job)
    assert not torch.equal(*(next(one.module.parameters()) for one in (public, private)))


def test_the_values_of_r_that_are_tried_rise_from_0_to_1() -> None:
    (tried,) = [field.default for field in dataclasses.fields(DAP) if field.name == "r"]
    assert isinstance(tried, tuple)
    assert tried == tuple(sorted(tried))
    assert (tried[0], tried[-1]) == (0.0, 1.0)
