"""Decaf on small federations: what it finds, what it promises, and that it touches nothing."""

import dataclasses
import functools
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from divulge.attacks import catalog
from divulge.attacks.composition import label_counts
from divulge.attacks.composition.decaf import published
from divulge.attacks.composition.decaf.attack import Decaf
from divulge.attacks.composition.decaf.client_workers import make_client_workers
from divulge.attacks.composition.label_counts import LabelCounts
from divulge.attacks.shared.observed_round import (
    OPERATIONS_PER_SECOND,
    ClientChange,
    ObservedRound,
    first_rounds,
)
from divulge.core import (
    LocalTraining,
    Proportions,
    ReceivedUpdate,
    Records,
    Round,
    Tensors,
    UpdateView,
)
from divulge.errors import NotApplicable, SpecError
from divulge.federation import Federation, exact, simulate
from divulge.metrics import composition
from divulge.testing.updates import FEATURES
from divulge.training.engine.client_training import copy_state
from divulge.training.recipe import Optimiser, Recipe

from . import federations
from .federations import COUNTS

QUICK = Decaf(level="virtual", clients=48, rounds=1)


def l1(guesses: tuple[Proportions, ...]) -> float:
    return composition.distances(guesses, federations.truths())["l1"].value


def guess(attack: Decaf, views: list[UpdateView], seed: int = 0) -> tuple[Proportions, ...]:
    return attack.many(views, np.random.default_rng(seed))


@pytest.mark.slow
def test_each_level_beats_what_knows_only_the_null_classes() -> None:
    views = federations.views(federations.played())
    rng = np.random.default_rng(0)
    floor = l1(tuple(LabelCounts("uniform")(view, rng) for view in views))
    faithful = l1(guess(Decaf(faithful=True), views))
    assert faithful < floor
    assert l1(guess(Decaf(level="bias"), views)) < 0.7 * faithful
    assert l1(guess(Decaf(level="virtual", clients=96), views)) < 0.5 * faithful


def test_a_round_counts_by_what_the_balance_of_its_biases_leaves_unexplained() -> None:
    stage = Mock(spec=ObservedRound, before=np.zeros((3, 3)), recipe=Mock(momentum=0.0))
    stage.after.return_value = np.zeros((3, 3))
    stage.class_means.return_value = np.zeros((3, 3))
    bias = np.array([3.0, 4.0, 8.0])  # of ten steps: shares that sum to 1.5
    sight = ClientChange(-np.ones((3, 4)), bias, 10, {})
    found = published._infer_from_biases(stage, sight)
    rest = found.share - bias / 10
    assert found.weight == pytest.approx(1 / (rest @ rest))
    assert found.weight < 100


def test_the_seconds_of_a_training_follow_from_its_multiplications() -> None:
    views = federations.views(federations.played())
    ((stage, _),) = first_rounds(views, 1).values()
    forward = 2 * 16 * (FEATURES + federations.CLASSES)
    answers = len(federations.reference())
    for records in (1, 60):
        expected = forward * (3 * records + answers) / OPERATIONS_PER_SECOND
        assert stage.seconds(records) == pytest.approx(expected)
    thrice = dataclasses.replace(stage, recipe=dataclasses.replace(stage.recipe, epochs=3))
    expected = forward * (9 * 60 + answers) / OPERATIONS_PER_SECOND
    assert thrice.seconds(60) == pytest.approx(expected)


def test_without_its_steps_the_published_method_errs_where_they_help() -> None:
    views = federations.views(federations.played())
    lacking = [k for k, row in enumerate(COUNTS) if (row == 0).any()]
    whole = guess(Decaf(faithful=True), views)
    everywhere = guess(Decaf(faithful=True, without="null removal"), views)
    assert any(everywhere[k].share[COUNTS[k] == 0].any() for k in lacking)
    assert not any(whole[k].share[COUNTS[k] == 0].any() for k in lacking)
    alone = guess(Decaf(faithful=True, without="calibrator"), views)
    for one, other in zip(alone, whole, strict=True):
        np.testing.assert_array_equal(one.null, other.null)
    assert any((one.share != other.share).any() for one, other in zip(alone, whole, strict=True))


def test_together_or_alone_a_client_is_guessed_the_same() -> None:
    views = federations.views(federations.played())
    together = guess(QUICK, views)[1]
    alone = QUICK(views[1], np.random.default_rng(0))
    # matrices of other sizes are multiplied in another order
    np.testing.assert_allclose(alone.share, together.share, atol=1e-9)
    assert alone.even == together.even


@pytest.mark.parametrize("optimiser", ["adadelta", "adam"])
def test_virtual_clients_read_any_optimiser(optimiser: Optimiser) -> None:
    lr = 1.0 if optimiser == "adadelta" else 0.005
    views = federations.views(federations.played(optimiser=optimiser, lr=lr))
    rng = np.random.default_rng(0)
    floor = l1(tuple(LabelCounts("uniform")(view, rng) for view in views))
    assert l1(guess(QUICK, views)) < floor


def test_rare_classes_are_declared_null_no_more_often_than_stated() -> None:
    """LayerNorm, LeakyReLU and weight decay: the published rule's premises are gone."""
    rng, error, clients = np.random.default_rng(2), 0.1, 30
    wrong = rare = 0
    for seed in range(2):
        mixes = [rng.dirichlet(np.full(4, rng.choice([1.0, 3.0, 10.0]))) for _ in range(clients)]
        counts = np.array([rng.multinomial(120, mix) for mix in mixes])
        pool = federations.records(2000, 20 + seed)
        recipe = Recipe(federations.leaky, lr=0.05, epochs=1, batch_size=20, weight_decay=0.01)
        federation = Federation(pool, exact(pool, counts, seed), recipe, seed=seed, workers=1)
        transcript, known = simulate(federation, 1), federations.records(60, 30 + seed)
        views = [transcript.view(str(k), federations.leaky, known) for k in range(clients)]
        found = guess(dataclasses.replace(QUICK, clients=72, null_error=error), views, seed)
        null = np.array([one.null for one in found])
        there = (counts > 0) & (counts < 30)
        wrong += int((null & there).sum())
        rare += int(there.sum())
    # All clients of a federation share the rare classes of about 60 virtual ones, 100 in all: the
    # rate is Beta(10, 91) in each. Three standard deviations of the share of both kinds.
    spread = error * (1 - error) * (1 / rare + 1 / (2 * 101))
    assert wrong / rare < error + 3 * spread**0.5


@pytest.mark.slow
def test_a_balanced_client_is_not_called_uneven_more_often_than_stated() -> None:
    counts = np.full((20, federations.CLASSES), 30)
    pool = federations.records(600, 5)
    recipe = Recipe(federations.relu, lr=0.05, epochs=1, batch_size=20)
    federation = Federation(pool, exact(pool, counts), recipe, workers=1)
    transcript = simulate(federation, 1)
    views = [transcript.view(str(k), federations.relu, federations.reference()) for k in range(20)]
    found = guess(dataclasses.replace(QUICK, clients=114), views)
    p = np.array([one.even for one in found])
    # Of p-values up to 0.1 there are 2 in 20. They share 76 even virtual clients, so the rate is
    # Beta(7, 70) in each federation: three standard deviations of the count of both kinds.
    assert (p <= 0.1).sum() <= 2 + 3 * (20 * 0.1 * 0.9 + 20 * 19 * 0.1 * 0.9 / 78) ** 0.5
    assert p.min() >= 1 / 77
    uneven = guess(QUICK, federations.views(federations.played()))
    assert uneven[3].even == pytest.approx(1 / 33)  # a single class, beside 8 + 24 even ones


def test_noise_is_noticed_and_played_again() -> None:
    rng = np.random.default_rng(3)
    clean = federations.played(rounds=1).rounds[0]
    received = {
        name: dataclasses.replace(
            got,
            tensors={
                n: (a + rng.normal(0, 0.05, a.shape)).astype(np.float32)
                for n, a in got.tensors.items()
            },
        )
        for name, got in clean.received.items()
    }
    noisy = dataclasses.replace(clean, received=received)
    known = federations.reference()
    views = [UpdateView(str(k), (noisy,), federations.relu, known) for k in range(len(COUNTS))]
    attack = dataclasses.replace(QUICK, null_error=0.1)
    wrong = [one.null & (row > 0) for one, row in zip(guess(attack, views), COUNTS, strict=True)]
    assert np.sum(wrong) <= 0.1 * 16 + 3 * (16 * 0.1 * 0.9) ** 0.5


def test_virtual_clients_train_by_the_dp_sgd_that_clients_were_told_of() -> None:
    recipe = Recipe(federations.relu, lr=0.05, epochs=1, batch_size=20)
    views = federations.views(federations.played())
    sent, rows = views[0].rounds[0].sent, [np.arange(40), np.arange(40)]
    found = []
    for noise in (1e-3, 400.0):
        pool = views[0].reference
        assert pool is not None
        workers = make_client_workers(recipe, pool, (noise, 1.0))
        one, other = workers.each(sent, rows, [1, 2], copy_state)
        found.append(max(float(np.abs(one[name] - other[name]).max()) for name in one))
    # Two steps over at most 40 clipped gradients each, over 20, at a rate of 0.05: two networks are
    # at most 0.4 apart. The noise alone has a deviation of 0.05 * 400 / 20 = 1 a step and weight.
    assert found[0] < 0.4 < 1 < found[1]


def test_two_state_dictionaries_are_enough() -> None:
    played = federations.played().rounds[0]
    how = LocalTraining("sgd", 0.05, 0.0, 0.0, 1, 20)
    view = UpdateView.between(
        played.sent,
        played.received["1"].tensors,
        120,
        how,
        federations.relu,
        federations.reference(),
    )
    found = Decaf(level="bias")(view, np.random.default_rng(0))
    assert np.abs(found.share - COUNTS[1] / 120).sum() < 0.5


def test_the_budget_chooses_the_level_and_the_guess_says_which() -> None:
    views = federations.views(federations.played())
    assert "72 virtual clients" in guess(QUICK, views)[0].how
    poor = guess(Decaf(budget=1e-9), views)[0]
    assert "published method" in poor.how
    assert "above the budget of 0 s" in poor.how
    rich = guess(Decaf(clients=24, rounds=1), views)[0]
    assert "96 virtual clients" in rich.how


def test_the_attack_leaves_the_transcript_and_the_model_as_they_were(tmp_path: Path) -> None:
    pool = federations.records(240, 100)
    recipe = Recipe(federations.relu, lr=0.05, epochs=1, batch_size=20)
    federation = Federation(pool, exact(pool, COUNTS), recipe, workers=1)

    def files(folder: Path) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}

    simulate(federation, 2, tmp_path / "alone")
    simulate(federation, 1, tmp_path / "attacked")
    from divulge.federation import Transcript

    half = Transcript.open(tmp_path / "attacked")
    guess(dataclasses.replace(QUICK, clients=24), federations.views(half))
    simulate(federation, 2, tmp_path / "attacked", resume=True)
    assert files(tmp_path / "alone") == files(tmp_path / "attacked")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"training": LocalTraining("sgd", None)}, "learning rate"),
        ({"received": {}}, "the server got nothing"),
        ({"received": {"1": ReceivedUpdate({}, None)}}, "number of records"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, Any], says: str) -> None:
    played: Round = dataclasses.replace(federations.played().rounds[0], **change)
    view = UpdateView("1", (played,), federations.relu, federations.reference())
    with pytest.raises(NotApplicable, match=says):
        Decaf(level="bias")(view, np.random.default_rng(0))


def test_records_of_each_class_are_asked_for() -> None:
    known = federations.reference()
    some = known.take(known.y != 2)
    (view, *_) = federations.views(federations.played(), known=some)
    with pytest.raises(NotApplicable, match="class 2"):
        Decaf(level="bias")(view, np.random.default_rng(0))
    with pytest.raises(NotApplicable, match="network and reference"):
        Decaf()(dataclasses.replace(view, network=None), np.random.default_rng(0))


def test_biases_are_not_needed_but_by_their_balance() -> None:
    transcript = federations.played(federations.without_bias)
    views = federations.views(transcript, federations.without_bias)
    with pytest.raises(NotApplicable, match="output biases"):
        guess(Decaf(level="bias"), views)
    assert l1(guess(QUICK, views)) < 0.5


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SpecError, match="level"):
        catalog.update_attack("decaf", level="best")
    with pytest.raises(SpecError, match="without"):
        catalog.update_attack("decaf", without="everything")
    with pytest.raises(SpecError, match="clients from 24"):
        Decaf(clients=3)


def test_the_balance_of_biases_knows_how_far_momentum_carries_a_step() -> None:
    view, *_ = federations.views(federations.played())
    (stage, _), *_ = first_rounds((view,), 1).values()
    stage = dataclasses.replace(stage, recipe=dataclasses.replace(stage.recipe, momentum=0.75))
    share, steps = np.array([0.4, 0.3, 0.2, 0.1]), 5
    answers = stage.class_means(stage.before)
    change = 4 * steps * (share - answers.T @ share)  # 1 + 0.75 + 0.75² and so on is 4
    seen = ClientChange(np.ones((4, 2)), change, steps, {})
    np.testing.assert_allclose(published._infer_from_biases(stage, seen).share, share, atol=1e-9)


def test_llg_gives_a_class_that_shows_nothing_no_record_beforehand() -> None:
    """Four records, 4/3 of impact each: three more go to the first class, the last on a tie."""
    view, *_ = federations.views(federations.played())
    (stage, _), *_ = first_rounds((view,), 1).values()
    stage = dataclasses.replace(stage, recipe=dataclasses.replace(stage.recipe, batch_size=4))
    weight = np.array([[1.0, 3.0], [0.0, 0.0], [-2.0, 0.0]])
    change = ClientChange(weight, None, 1, {})
    counts = label_counts.llg(stage, change, np.random.default_rng(0))
    np.testing.assert_array_equal(counts, [4, 0, 0])


@pytest.mark.parametrize(
    ("method", "once", "for_each"),
    [("ilrg", 1, 0), ("rlu", 1, 1), ("llg", 0, 0), ("ranking", 0, 0), ("uniform", 0, 0)],
)
def test_baselines_query_the_model_sent_out_once_for_all_clients_and_only_if_they_read_answers(
    method: label_counts.Method, once: int, for_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    predict = ObservedRound._predict

    def count(stage: ObservedRound, state: Tensors) -> np.ndarray:
        asked.append(state)
        return predict(stage, state)

    monkeypatch.setattr(ObservedRound, "_predict", count)
    views, rng = federations.views(federations.played()), np.random.default_rng(0)
    attack = LabelCounts(method, rounds=1)
    found = attack.many(views, rng)
    assert len(asked) == once + for_each * len(views)
    for view, guess in zip(views, found, strict=True):
        np.testing.assert_array_equal(attack(view, rng).share, guess.share)


class Convolution(nn.Module):
    """A network whose forward pass may refuse images with their channels last."""

    def __init__(self, *, strict: bool) -> None:
        super().__init__()
        self.conv, self.last, self.strict = nn.Conv2d(2, 3, 3), nn.Linear(12, 4), strict

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.conv(x)
        flat = seen.view(len(x), 12) if self.strict else seen.flatten(1)
        logits: torch.Tensor = self.last(flat)
        return logits


@pytest.mark.parametrize("strict", [False, True])
def test_a_convolution_is_queried_with_its_channels_last_where_it_takes_them(strict: bool) -> None:
    network = functools.partial(Convolution, strict=strict)
    module = network()
    x = np.random.default_rng(0).random((8, 2, 4, 4))
    sent = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    recipe = Recipe(network, lr=0.1, epochs=1, batch_size=4)
    stage = ObservedRound(Round(0, "weights", sent, {}), recipe, Records(x, np.arange(8) % 4))
    answers = module(torch.from_numpy(x).float()).softmax(1).detach().numpy()
    np.testing.assert_allclose(stage.before, answers, atol=1e-6)
    asked = stage._reloaded_target.module
    assert isinstance(asked, Convolution)
    last = asked.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert last != strict


@pytest.mark.parametrize("method", ["llg", "ilrg", "rlu", "ranking", "uniform"])
def test_each_baseline_knows_more_than_chance(method: str) -> None:
    views = federations.views(federations.played())
    rng = np.random.default_rng(0)
    drawn = [l1(tuple(LabelCounts("random")(view, rng) for view in views)) for _ in range(20)]
    found = l1(tuple(LabelCounts(method)(view, rng) for view in views))  # type: ignore[arg-type]
    assert found < np.mean(drawn) - 2 * np.std(drawn) / 20**0.5
