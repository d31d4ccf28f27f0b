"""SeqMIA: the metrics, the snapshots and the recurrent network beside slow twins."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from divulge.attacks.membership import metric_sequence
from divulge.attacks.membership.metric_sequence import SeqMIA
from divulge.core import ModelView
from divulge.errors import NotApplicable
from divulge.testing import forests


def view_of(seed: int = 0) -> ModelView:
    return forests.with_known_members(seed, trained=True).view


def test_the_metrics_are_their_formulas() -> None:
    dice = np.random.default_rng(0)
    p, y = dice.dirichlet(np.ones(4), 30), dice.integers(0, 4, 30)
    for row, of, label in zip(metric_sequence.metrics(p, y), p.tolist(), y.tolist(), strict=True):
        mean = sum(of) / 4
        others = [q for k, q in enumerate(of) if k != label]
        assert row.tolist() == pytest.approx([
            -math.log(of[label]),
            max(of),
            math.sqrt(sum((q - mean) ** 2 for q in of) / 4),
            -sum(q * math.log(q) for q in of),
            -(1 - of[label]) * math.log(of[label]) - sum(q * math.log(1 - q) for q in others),
        ])  # fmt: skip


def test_snapshots_come_nearer_to_the_target_which_comes_last() -> None:
    view = view_of()
    assert view.reference is not None
    half = view.reference.take(np.arange(150))
    asked = [half, view.records]
    found = metric_sequence.sequences(view, half, asked, 20, seed=0)
    assert [part.shape for part in found] == [(150, 21, 5), (len(view.records), 21, 5)]
    for part, records in zip(found, asked, strict=True):
        said = metric_sequence.metrics(view.target.predict(records.x), records.y)
        np.testing.assert_array_equal(part[:, -1], said)
    apart = np.abs(found[0] - found[0][:, -1:]).mean(axis=(0, 2))
    assert apart[19] < 2 / 3 * apart[0]
    again = metric_sequence.sequences(view, half, asked, 20, seed=0)
    np.testing.assert_array_equal(again[1], found[1])


def test_the_recurrent_network_is_its_naive_twin() -> None:
    torch.manual_seed(0)
    network = metric_sequence.make_reader(3)
    weights = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    asked = np.random.default_rng(1).normal(size=(4, 6, 3))
    found = metric_sequence.read(network, asked)
    for record, said in zip(asked, found, strict=True):
        assert said == pytest.approx(naive_reader(weights, record), abs=1e-9)


def naive_reader(weights: dict[str, np.ndarray], record: np.ndarray) -> float:
    """Gates by hand; the last state weighs all states by their products with it."""
    units = metric_sequence.STATES
    state, cell, states = np.zeros(units), np.zeros(units), []
    for x in record:
        gates = weights["recurrent.weight_ih_l0"] @ x + weights["recurrent.bias_ih_l0"]
        gates += weights["recurrent.weight_hh_l0"] @ state + weights["recurrent.bias_hh_l0"]
        let, forget, new, show = np.split(gates, 4)
        cell = sigmoid(forget) * cell + sigmoid(let) * np.tanh(new)
        state = sigmoid(show) * np.tanh(cell)
        states.append(state)
    like = np.exp([float(state @ one) for one in states])
    context = sum(w * one for w, one in zip(like / like.sum(), states, strict=True))
    both = np.concatenate([state, context])
    return float((weights["last.weight"] @ both + weights["last.bias"])[0])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def test_the_reader_learns_what_only_the_order_of_snapshots_tells() -> None:
    dice = np.random.default_rng(2)
    x, member = dice.normal(size=(300, 6, 1)), np.arange(300) % 2 == 0
    x.sort(axis=1)
    x[member] = x[member][:, ::-1]
    network = metric_sequence.train_reader(x[:200], member[:200], 30, 0)
    right = (metric_sequence.read(network, x[200:]) > 0) == member[200:]
    assert right.mean() > 0.9


def test_biases_do_not_decay() -> None:
    network = metric_sequence.make_reader(2)
    weights, biases = metric_sequence._groups(network, 0.1)
    assert weights["weight_decay"] == 0.1
    assert "weight_decay" not in biases
    assert all(of.ndim == 1 for of in biases["params"])
    assert all(of.ndim == 2 for of in weights["params"])


def test_too_few_known_members_or_reference_records_are_refused() -> None:
    view = view_of()
    assert view.known_members is not None
    assert view.reference is not None
    few = view.known_members.take(np.arange(49))
    for poorer in (
        dataclasses.replace(view, known_members=few),
        dataclasses.replace(view, reference=view.reference.take(np.arange(99))),
    ):
        with pytest.raises(NotApplicable, match="twice as many reference records"):
            SeqMIA()(poorer, np.random.default_rng(0))
