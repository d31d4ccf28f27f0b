"""Rankers and recommenders against loops that follow the papers word by word."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from divulge.attacks.interactions.raifle.attack import RAIFLE
from divulge.core import JointLearner, Learner, LinearisedLearner, UpdateDefence
from divulge.data import interactions, ranking
from divulge.errors import SpecError
from divulge.federation.recommender.model import ITEMS, NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.federation.search import click_models, models
from divulge.federation.search.laplacian import laplacian
from divulge.federation.search.pairwise import Pairwise
from divulge.federation.search.pointwise import Pointwise
from divulge.federation.search.users import Searching
from divulge.metrics.interactions import measure_user


def test_synthetic_queries_have_5_to_20_documents_of_three_grades() -> None:
    made = ranking.synthetic_queries(2000, 3, np.random.default_rng(0))
    sizes = np.bincount(made.query)
    assert set(sizes.tolist()) == set(range(5, 21))  # one is missed in 2000 e^-125 of draws
    np.testing.assert_allclose(
        np.bincount(made.relevance) / len(made.relevance), [0.7, 0.2, 0.1], atol=1e-3
    )


def ranker(hidden: int, features: int = 3, seed: int = 0) -> dict[str, torch.Tensor]:
    return models.ranker(features, hidden, torch.Generator().manual_seed(seed))


def flat(tensors: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([tensors[name].detach().numpy().ravel() for name in sorted(tensors)])


def total_square(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([value.flatten() for value in tensors.values()]).square().sum()


def log_probability(score: list[float]) -> float:
    return sum(s - float(np.log(np.exp(score[k:]).sum())) for k, s in enumerate(score))


def pair_by_pair(
    weights: dict[str, torch.Tensor], x: torch.Tensor, clicked: list[float]
) -> np.ndarray:
    """The step of one query, as a sum over pairs with gradients by autograd."""
    score = models.score(weights, x).tolist()
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    values = models.score(leaves, x)
    names = sorted(leaves)
    gradient = [
        np.concatenate(
            [
                g.numpy().ravel()
                for g in torch.autograd.grad(v, [leaves[n] for n in names], retain_graph=True)
            ]
        )
        for v in values
    ]
    total = np.zeros_like(gradient[0])
    for i, j in itertools.permutations(range(len(x)), 2):
        swapped = list(score)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        p, other = np.exp(log_probability(score)), np.exp(log_probability(swapped))
        a, b = np.exp(score[i]), np.exp(score[j])
        weight = other / (p + other) * a * b / (a + b) ** 2
        total += clicked[i] * (1 - clicked[j]) * weight * (gradient[i] - gradient[j])
    return total


@given(st.integers(0, 999), st.sampled_from([0, 2]), st.integers(2, 4))
def test_a_step_of_fpdgd_is_the_sum_over_pairs(seed: int, hidden: int, many: int) -> None:
    rng = np.random.default_rng(seed)
    weights, x = ranker(hidden, seed=seed), torch.from_numpy(rng.normal(size=(many, 3)))
    clicked = rng.random(many)  # degrees of interaction, not only 0 and 1
    learner = Pairwise(np.zeros(many, np.int64), lr=0.3)
    found = flat(learner.update(weights, x, torch.from_numpy(clicked)))
    np.testing.assert_allclose(found, 0.3 * pair_by_pair(weights, x, clicked.tolist()), atol=1e-10)


@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize(
    "learner",
    [Pairwise(np.array([1, 1, 0, 0, 0, 2, 2]), 0.5), Pointwise(3, 0.05), Pointwise(1, 0.05)],
    ids=["pairwise", "pointwise", "one epoch"],
)
def test_at_its_own_interactions_the_affine_map_gives_the_update(
    learner: LinearisedLearner, hidden: int
) -> None:
    rng = np.random.default_rng(0)
    weights, x = ranker(hidden), torch.from_numpy(rng.normal(size=(7, 3)))
    acted = torch.from_numpy(rng.random(7))
    affine = learner.linearise(weights, x, acted)
    found = affine.constant + affine.matrix @ acted.numpy()
    np.testing.assert_allclose(found, flat(learner.update(weights, x, acted)), atol=1e-12)
    elsewhere = learner.linearise(weights, x, 1 - acted)
    same = [np.allclose(a, b) for a, b in zip(affine, elsewhere, strict=True)]
    assert learner.exact == all(same)


def test_fillers_change_no_pair() -> None:
    score = torch.randn(5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    filled = torch.cat([score, torch.full((2,), -torch.inf, dtype=torch.float64)])
    found = laplacian(filled)
    torch.testing.assert_close(found[:5, :5], laplacian(score))
    assert found[5:].abs().sum() == found[:, 5:].abs().sum() == 0
    torch.testing.assert_close(found.sum(1), torch.zeros(7, dtype=torch.float64))


@pytest.mark.parametrize("many", [2, 4])
def test_the_published_derivative_lacks_that_of_swapped_rankings(many: int) -> None:
    """Beside a slow twin that goes ranking by ranking; the values are the same either way."""
    generator = torch.Generator().manual_seed(many)
    score = torch.randn(many, generator=generator, dtype=torch.float64).requires_grad_()
    along = torch.randn(many, many, generator=generator, dtype=torch.float64)

    def log_sums(ranked: torch.Tensor) -> torch.Tensor:
        return -sum((ranked[place:].logsumexp(0) for place in range(many)), torch.zeros(()))

    entries = []
    for i, j in itertools.product(range(many), repeat=2):
        order = list(range(many))
        order[i], order[j] = order[j], order[i]
        swapped, shown = log_sums(score[order]).detach(), log_sums(score)
        pair = torch.sigmoid(score[i] - score[j]) * torch.sigmoid(score[j] - score[i])
        entries.append(torch.sigmoid(swapped - shown) * pair)
    weight = torch.stack(entries).reshape(many, many)
    twin = torch.diag(weight.sum(1)) - weight
    found = laplacian(score, whole_derivative=False)
    torch.testing.assert_close(found, laplacian(score))
    torch.testing.assert_close(found, twin)
    slopes = [torch.autograd.grad((matrix * along).sum(), score)[0] for matrix in (found, twin)]
    torch.testing.assert_close(*slopes)
    (whole,) = torch.autograd.grad((laplacian(score) * along).sum(), score)
    assert not torch.allclose(slopes[0], whole)


def one_user(
    learner: NeuralCF, sent: dict[str, torch.Tensor], own: torch.Tensor,
    items: torch.Tensor, acted: torch.Tensor,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """Local training with PyTorch's own layers, one user; Adam written out, with its inner ε."""
    module = torch.nn.Sequential()
    for layer in range(len(sent) // 2):
        weight = sent[f"{layer}.weight"]
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data, linear.bias.data = weight.clone(), sent[f"{layer}.bias"].clone()
        module.extend([linear, torch.nn.ReLU()] if f"{layer + 1}.weight" in sent else [linear])
    leaves = [own.clone(), items.clone(), *module.parameters()]
    for leaf in leaves:
        leaf.requires_grad_()
    memory = [(torch.zeros_like(leaf), torch.zeros_like(leaf)) for leaf in leaves]
    for step in range(1, learner.epochs + 1):
        pairs = torch.cat([leaves[0].expand(len(items), -1), leaves[1]], 1)
        p = module(pairs)[:, 0].sigmoid()
        loss = torch.nn.functional.binary_cross_entropy(p, acted)
        loss = loss + learner.l1 * (leaves[1] - items).abs().mean()
        grads = torch.autograd.grad(loss, leaves)
        with torch.no_grad():
            for leaf, grad, (m, v) in zip(leaves, grads, memory, strict=True):
                m.mul_(0.9).add_(0.1 * grad)
                v.mul_(0.999).add_(0.001 * grad**2)
                root = (v / (1 - 0.999**step) + 1e-8).sqrt() + 1e-8
                leaf -= learner.lr * m / (1 - 0.9**step) / root
    names = [f"{layer}.{kind}" for layer in range(len(sent) // 2) for kind in ("weight", "bias")]
    change = {n: (leaf - sent[n]).detach() for n, leaf in zip(names, leaves[2:], strict=True)}
    return {ITEMS: (leaves[1] - items).detach(), **change}


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_users_trained_together_are_those_trained_alone(l1: float) -> None:
    learner = NeuralCF(width=4, hidden=(6, 5), epochs=4, l1=l1)
    generator = torch.Generator().manual_seed(0)
    sent = {name: w.double() for name, w in learner.network(generator).items()}
    items = torch.randn(2, 5, 4, generator=generator, dtype=torch.float64)
    acted = (torch.rand(2, 5, generator=generator) < 0.4).double()
    own = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    found = learner.update(sent, items, acted, own, real)
    for user, many in enumerate((5, 3)):
        wanted = one_user(learner, sent, own[user], items[user, :many], acted[user, :many])
        for name, value in wanted.items():
            mine = found[name][user][:many] if name == ITEMS else found[name][user]
            torch.testing.assert_close(mine, value, atol=1e-9, rtol=1e-6)
    followed = learner.update(sent, items, acted.clone().requires_grad_(), own, real)
    for name, value in found.items():  # gradients by hand are those that autograd finds
        torch.testing.assert_close(followed[name].detach(), value)
    alone = learner.update(sent, items[0], acted[0], own[0])
    torch.testing.assert_close(alone[ITEMS], found[ITEMS][0])
    networks = {name: torch.stack([w, 2 * w]) for name, w in sent.items()}
    own_networks = learner.update(networks, items, acted, own, real)
    doubled = {name: 2 * w for name, w in sent.items()}
    for user, network in enumerate((sent, doubled)):
        one = learner.update(network, items[[user]], acted[[user]], own[[user]], real[[user]])
        for name, value in one.items():
            torch.testing.assert_close(own_networks[name][user], value[0])


@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize(
    "learners",
    [
        [Pairwise(np.array(query), 0.5) for query in ([1, 1, 0, 0, 0, 2, 2], [3, 3, 3], [0, 0, 1])],
        [Pointwise(3, 0.05)] * 3,
        [Pointwise(2, 0.05, "cross-entropy")] * 3,
    ],
    ids=["pairwise", "squared", "cross-entropy"],
)
def test_clients_of_a_ranker_trained_together_are_those_trained_alone(
    learners: list[Pairwise | Pointwise], hidden: int
) -> None:
    """Updates, and their derivatives in the interactions; what fillers hold does not matter."""
    rng = np.random.default_rng(0)
    counts = (7, 3, 3)
    each = [ranker(hidden, seed=seed) for seed in range(3)]
    x, acted = (torch.from_numpy(rng.random(size)) for size in ((3, 7, 3), (3, 7)))
    acted.requires_grad_()
    real = torch.arange(7) < torch.tensor(counts)[:, None]
    together = learners[0].join(learners)
    assert together is not None
    sent = {name: torch.stack([weights[name] for weights in each]) for name in each[0]}
    found = together.update(sent, x, acted, None, real)
    (slopes,) = torch.autograd.grad(total_square(found), acted)
    for client, many in enumerate(counts):
        own = acted[client, :many].detach().clone().requires_grad_()
        alone = learners[client].update(each[client], x[client, :many], own)
        for name, value in alone.items():
            torch.testing.assert_close(found[name][client], value)
        (slope,) = torch.autograd.grad(total_square(alone), own)
        torch.testing.assert_close(slopes[client, :many], slope)
        assert slopes[client, many:].abs().sum() == 0


@pytest.mark.parametrize(
    "learner",
    [Pairwise(np.zeros(2, int)), Pointwise(), NeuralCF()],
    ids=lambda one: type(one).__name__,
)
def test_only_learners_that_train_alike_are_joined(learner: JointLearner) -> None:
    assert learner.join([learner, dataclasses.replace(learner, lr=0.5)]) is None  # type: ignore[type-var]
    assert learner.join([learner, Pointwise(7)]) is None


def test_clients_with_another_derivative_are_not_joined() -> None:
    learner = Pairwise(np.zeros(2, int))
    assert learner.join([learner, dataclasses.replace(learner, whole_derivative=False)]) is None


def test_each_order_of_queries_is_linearised_as_one_client() -> None:
    rng = np.random.default_rng(0)
    learner = Pairwise(np.array([1, 1, 0, 0, 0, 2, 2]), 0.5)
    weights, x, acted = (
        ranker(4),
        torch.from_numpy(rng.random((7, 3))),
        torch.from_numpy(rng.random(7)),
    )
    orders = learner.reorder(rng, 5)
    found, change = orders.linearise(weights, x, acted), orders.update(weights, x, acted)
    for row, query in enumerate(orders.query):
        alone = dataclasses.replace(learner, query=query)
        np.testing.assert_allclose(found.matrix[row], alone.linearise(weights, x, acted).matrix)
        for name, value in alone.update(weights, x, acted).items():
            torch.testing.assert_close(change[name][row], value)


@pytest.mark.parametrize(
    "learner",
    [NeuralCF(width=3, hidden=(4,), epochs=3), Pairwise(np.array([0, 0, 1, 1])), Pointwise(2)],
    ids=lambda learner: type(learner).__name__,
)
def test_each_learner_is_differentiable_in_the_interactions(learner: Learner) -> None:
    generator = torch.Generator().manual_seed(1)
    items = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    own = torch.randn(3, generator=generator, dtype=torch.float64) if learner.private else None
    if isinstance(learner, NeuralCF):
        sent = {name: w.double() for name, w in learner.network(generator).items()}
    else:
        sent = ranker(2)
    acted = torch.rand(4, generator=generator, dtype=torch.float64).requires_grad_()

    def total(a: torch.Tensor) -> Any:
        change = learner.update(sent, items, a, own)
        return sum((v**2).sum() for v in change.values())

    (slope,) = torch.autograd.grad(total(acted), acted)
    for k in range(4):
        step = torch.zeros(4, dtype=torch.float64)
        step[k] = 1e-5
        with torch.no_grad():
            numeric = (total(acted + step) - total(acted - step)) / 2e-5
        assert float(slope[k]) == pytest.approx(float(numeric), rel=1e-4, abs=1e-9)


def test_clicks_follow_the_model_and_are_mixed() -> None:
    model = click_models.ClickModel((0.3, 0.8), (0.5, 1.0))
    rng = np.random.default_rng(0)
    grades = np.array([0, 1, 0])

    def chance(pattern: tuple[bool, ...], place: int = 0) -> Any:
        if place == 3:
            return 1.0
        click, stop = model.click[grades[place]], model.stop[grades[place]]
        onward = chance(pattern, place + 1)
        if not pattern[place]:
            return (1 - click) * onward
        return click * (stop * (not any(pattern[place + 1 :])) + (1 - stop) * onward)

    mixed = [p for p in itertools.product([False, True], repeat=3) if any(p) and not all(p)]
    drawn = [tuple(model.draw(grades, rng).tolist()) for _ in range(4000)]
    assert set(drawn) <= set(mixed)
    for pattern in mixed:
        wanted = chance(pattern) / sum(map(chance, mixed))
        assert drawn.count(pattern) / 4000 == pytest.approx(wanted, abs=0.03)
    with pytest.raises(SpecError, match="none such"):
        model.draw(np.array([0]), rng)
    with pytest.raises(SpecError, match="4"):
        click_models.published_click_model("navigational", 4)
    for sure in (0.0, 1.0):
        click_models.ClickModel((sure,), (sure,))
        with pytest.raises(SpecError, match="probabilities"):
            click_models.ClickModel((0.5,), (3 * sure - 1,))


@pytest.mark.parametrize(
    ("habit", "grades", "click", "stop"),
    [
        ("navigational", 3, (0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        ("informational", 3, (0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        ("navigational", 5, (0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
        ("informational", 5, (0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    ],
)
def test_published_click_models_are_those_of_the_paper(
    habit: click_models.Habit, grades: int, click: tuple[float, ...], stop: tuple[float, ...]
) -> None:
    """Wang et al. (2021), table 2."""
    found = click_models.published_click_model(habit, grades)
    assert (found.click, found.stop) == (click, stop)


def test_users_of_a_log_become_challenges() -> None:
    log = interactions.synthetic_interactions(12, 40, np.random.default_rng(0), mean=4.0)
    world = Recommending(log, NeuralCF(width=4, hidden=(6,), epochs=2))
    found = list(world.challenges(range(12), UpdateDefence()))
    assert len(found) == 12
    for challenge in found:
        many = len(challenge.truth.acted)
        assert challenge.view.inputs is not None
        assert challenge.view.inputs.shape == (many, 4)
        assert challenge.view.rounds[0].change("0")[ITEMS].shape == (many, 4)
        assert many == 5 * challenge.truth.acted.sum() or many == 40
    again = list(world.challenges(range(12), UpdateDefence()))
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(
            one.view.rounds[0].change("0")[ITEMS], other.view.rounds[0].change("0")[ITEMS]
        )
    only = Recommending(log, world.learner, embeddings_only=True)
    assert set(next(only.challenges([3], UpdateDefence())).view.rounds[0].change("0")) == {ITEMS}


def test_decoys_are_trained_on_as_if_acted_on_and_are_not() -> None:
    """Whoever reads the update takes them for interactions: an AUC of 1 falls to 5/6."""
    log = interactions.synthetic_interactions(8, 300, np.random.default_rng(0), mean=12.0)
    learner, plain = NeuralCF(width=16, hidden=(16,), epochs=3), []
    for decoys in (0, 2):
        world = Recommending(log, learner, embeddings_only=True, decoys=decoys)
        games = list(world.challenges(range(8), UpdateDefence()))
        guesses = RAIFLE().many([game.view for game in games], np.random.default_rng(0))
        pairs = list(zip(guesses, games, strict=True))
        for _, game in pairs:
            acted = game.truth.acted
            assert len(acted) == acted.sum() * (5 + decoys)
        plain.append(np.mean([measure_user(guess, game.truth).auc for guess, game in pairs]))
    # of 6 items left alone for each acted on, 2 are trained on alike: 4/6 + 2/6 / 2
    assert plain[0] > 0.99
    assert plain[1] == pytest.approx(5 / 6, abs=0.1)


def test_a_user_asks_no_query_twice() -> None:
    queries = ranking.synthetic_queries(12, 6, np.random.default_rng(0))
    world = Searching(queries, click_models.published_click_model("informational", 3), lr=0.5)
    found = world.challenge(ranker(0, 6), 12, UpdateDefence(), np.random.default_rng(1))
    learner = found.view.learner
    assert isinstance(learner, Pairwise)
    assert found.view.inputs is not None
    lists = {found.view.inputs[learner.query == query].tobytes() for query in range(12)}
    assert len(lists) == 12


def test_documents_in_the_order_of_the_file_have_the_clicks_that_they_have_as_shown() -> None:
    queries = ranking.synthetic_queries(12, 4, np.random.default_rng(0))
    number = {row.tobytes(): place for place, row in enumerate(queries.x)}
    clicks = click_models.published_click_model("informational", 3)
    weights = ranker(0, 4)
    games = [
        Searching(queries, clicks, order=order).challenge(
            weights, 3, UpdateDefence(), np.random.default_rng(5)
        )
        for order in ("shown", "file")
    ]
    places = [[number[row.tobytes()] for row in game.view.inputs] for game in games]  # type: ignore[union-attr]
    acted = [dict(zip(p, g.truth.acted, strict=True)) for p, g in zip(places, games, strict=True)]
    assert acted[0] == acted[1]
    assert places[0] != places[1]
    learner = games[1].view.learner
    assert isinstance(learner, Pairwise)
    for query in range(3):
        part = [place for place, of in zip(places[1], learner.query, strict=True) if of == query]
        assert part == sorted(part)
    # weights against position bias go by another order, so the update is another
    changes = [game.view.rounds[0].change("0")["output.weight"] for game in games]
    assert not np.allclose(changes[0], changes[1])


def test_a_search_engine_learns_and_its_users_become_challenges() -> None:
    queries = ranking.synthetic_queries(30, 6, np.random.default_rng(0))
    world = Searching(queries, click_models.published_click_model("informational", 3), lr=0.5)
    weights = ranker(0, 6)
    found = world.challenge(weights, 3, UpdateDefence(), np.random.default_rng(1))
    learner = found.view.learner
    assert isinstance(learner, Pairwise)
    for query in range(3):
        part = found.truth.acted[learner.query == query]
        assert part.any()
        assert not part.all()
    trained = world.train(weights, UpdateDefence(), np.random.default_rng(2), users=10)
    assert flat(trained).shape == (6,)
    assert np.abs(flat(trained) - flat(weights)).max() > 0
    with pytest.raises(SpecError, match="1 to 30"):
        world.challenge(weights, 31, UpdateDefence(), np.random.default_rng(1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: NeuralCF(width=0),
        lambda: NeuralCF(l1=-1.0),
        lambda: Pairwise(np.zeros(2, np.int64), lr=0.0),
        lambda: Pointwise(epochs=0),
        lambda: Recommending(
            interactions.synthetic_interactions(2, 9, np.random.default_rng(0), mean=2.0),
            NeuralCF(),
            decoys=-1,
        ),
    ],
)
def test_senseless_settings_are_refused(make: object) -> None:
    with pytest.raises(SpecError):
        make()  # type: ignore[operator]
