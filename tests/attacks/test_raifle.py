"""RAIFLE finds interactions where they are determined, and says so where they are not."""

import dataclasses
import threading
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from divulge.attacks.interactions.raifle import attack as decisions
from divulge.attacks.interactions.raifle import linear, simulated_updates
from divulge.attacks.interactions.raifle.attack import RAIFLE
from divulge.attacks.interactions.raifle.matching import Matching
from divulge.attacks.interactions.raifle.simulated_updates import Victim
from divulge.core import LocalTraining, Need
from divulge.data import interactions
from divulge.data.ranking import synthetic_queries
from divulge.defences.updates.local_dp import LocalNoise
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.federation.client_checks.base import Outgoing
from divulge.federation.client_checks.interactions import OwnInteractions
from divulge.federation.recommender.model import NeuralCF
from divulge.federation.recommender.users import Recommending
from divulge.federation.search.click_models import published_click_model
from divulge.federation.search.models import ranker
from divulge.federation.search.pairwise import Pairwise
from divulge.federation.search.pointwise import Pointwise
from divulge.federation.search.users import Searching
from divulge.metrics import interactions as metrics
from divulge.testing.items import NONE, UserGame, pointwise, recommended, searched

Code = Literal["corrected", "published"]
TINY = NeuralCF(width=3, hidden=(4,), epochs=3)


def attacked(game: UserGame, attack: RAIFLE | None = None, seed: int = 0) -> metrics.UserMetrics:
    guess = (attack or RAIFLE())(game.view, np.random.default_rng(seed))
    return metrics.measure_user(guess, game.truth)


def test_a_posterior_mean_is_decided_at_one_half(monkeypatch: pytest.MonkeyPatch) -> None:
    def low(*given: Any) -> linear.Solution:
        start = given[5]
        assert isinstance(start, linear.Solution)
        return start._replace(value=np.linspace(0.1, 0.4, len(start.value)))

    monkeypatch.setattr(linear, "settle_coins", low)
    guess = RAIFLE("gauss-newton")(searched(1, 0, 0).view, np.random.default_rng(0))
    assert not guess.decided.any()


@given(st.integers(2, 12), st.integers(0, 8), st.sampled_from([0, 3]), st.integers(0, 999))
def test_theorem_1_full_rank_gives_the_exact_interactions(
    items: int, spare: int, hidden: int, seed: int
) -> None:
    game = pointwise(items, items + spare, hidden, seed)
    view = game.view
    assert isinstance(view.learner, Pointwise)
    assert view.inputs is not None
    sent = {name: torch.from_numpy(np.array(w)) for name, w in view.rounds[0].sent.items()}
    x = torch.from_numpy(view.inputs)
    affine = view.learner.linearise(sent, x, torch.full((items,), 0.5, dtype=torch.float64))
    change = view.rounds[0].change("0")
    update = np.concatenate([change[name].ravel() for name in sorted(change)])

    def objective(acted: np.ndarray) -> float:
        simulated = view.learner.update(sent, x, torch.from_numpy(acted))  # type: ignore[union-attr]
        return float(sum(((simulated[n].numpy() - change[n]) ** 2).sum() for n in change))

    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=items), rng.normal(size=items)
    for share in (0.25, 0.5):  # convex: theorem 1
        between = objective(share * one + (1 - share) * other)
        assert between <= share * objective(one) + (1 - share) * objective(other) + 1e-12
    if np.linalg.matrix_rank(affine.matrix) < items:
        return  # a hidden layer that is off for an item
    found = linear.closed_form(affine, update)
    if found.condition < 1e8:
        np.testing.assert_allclose(found.value, game.truth.acted, atol=1e-6)
        assert attacked(game).f1 == 1.0


def test_rank_deficiency_is_said_instead_of_guessed() -> None:
    game = pointwise(items=12, features=5, hidden=0, seed=0)
    with pytest.raises(NotApplicable, match=r"rank 5 \(condition number"):
        RAIFLE("closed-form")(game.view, np.random.default_rng(0))
    guess = RAIFLE()(game.view, np.random.default_rng(0))
    assert "rank 5 for 12 interactions, which do not determine them" in guess.how
    assert "condition number" in guess.how


def test_several_epochs_are_linearised() -> None:
    game = pointwise(8, 10, 0, seed=1, epochs=4)
    assert attacked(game).f1 == 1.0
    with pytest.raises(NotApplicable, match="affine"):
        RAIFLE("closed-form")(game.view, np.random.default_rng(0))


@pytest.mark.parametrize("l1", [0.0, 0.25])  # 0.25 pulls each of 16 numbers as 1 does each of 64
def test_embeddings_give_away_the_interactions_of_a_recommender(l1: float) -> None:
    found = [attacked(game) for game in recommended(l1)]
    assert np.mean([one.auc for one in found]) > 0.99
    # of five items nobody can say where two groups part
    many = [one.f1 for one, game in zip(found, recommended(l1), strict=True)
            if len(game.truth.acted) > 5]  # fmt: skip
    # shortened movements blur where the two groups part, not their order
    assert np.mean(many) > (0.9 if l1 else 0.95)


def test_under_noise_it_helps_to_know_how_clients_train() -> None:
    """Noise of 4 times a row's movement; the same users with and without a known learner."""
    log = interactions.synthetic_interactions(30, 400, np.random.default_rng(0), mean=20.0)
    learner = NeuralCF(width=16, hidden=(32, 16), epochs=5)
    world = Recommending(log, learner, embeddings_only=True)
    gains = []
    for number, game in enumerate(world.challenges(range(30), NONE)):
        (seen,) = game.view.rounds
        change, rng = seen.change(game.view.victim)["items"], np.random.default_rng(number)
        spread = 4 * np.linalg.norm(change, axis=1).mean() / change.shape[1] ** 0.5
        noisy = {"items": change + rng.normal(0, spread, change.shape).astype(change.dtype)}
        got = dataclasses.replace(seen.received[game.view.victim], tensors=noisy)
        seen = dataclasses.replace(seen, received={game.view.victim: got})
        blind = dataclasses.replace(game.view, rounds=(seen,), learner=None)
        view = dataclasses.replace(blind, learner=game.view.learner)
        guess = RAIFLE()(view, rng)
        assert "simulated trainings" in guess.how
        without = metrics.measure_user(RAIFLE()(blind, rng), game.truth).auc
        with_it = metrics.measure_user(guess, game.truth).auc
        gains.append(with_it - without)
    assert stats.ttest_1samp(gains, 0.0, alternative="greater").pvalue < 0.01


@pytest.mark.parametrize("hidden", [0, 6])
def test_clicks_come_back_from_a_search_engine_that_hands_out_noise(hidden: int) -> None:
    found = [attacked(searched(2, hidden, seed)) for seed in range(4)]
    assert np.mean([one.auc for one in found]) > 0.95


def test_matching_finds_what_the_linear_system_finds() -> None:
    game = searched(1, 4, seed=3)
    assert attacked(game, RAIFLE("match", steps=60)).auc == attacked(game).auc == 1.0
    assert attacked(game, RAIFLE("match", steps=60, optimiser="adam")).auc == 1.0


@pytest.mark.parametrize("joint", [True, False])
def test_matching_a_recommender_comes_closer_with_each_step(joint: bool) -> None:
    log = interactions.synthetic_interactions(1, 20, np.random.default_rng(0), mean=6.0)
    learner = NeuralCF(width=4, hidden=(6,), epochs=3)
    (game,) = Recommending(log, learner).challenges([0], NONE)
    view = game.view
    sent = {n: torch.from_numpy(np.array(w)) for n, w in view.rounds[0].sent.items()}
    update = {n: torch.from_numpy(w) for n, w in view.rounds[0].change("0").items()}
    victim = Victim(learner, sent, sent["items"], update)
    losses = [
        next(Matching("lbfgs", steps, joint).match([victim], np.random.default_rng(0))).loss
        for steps in (1, 4, 16)
    ]
    assert losses[0] > losses[1] > losses[2]
    guess = RAIFLE("match", steps=2, joint=joint)(view, np.random.default_rng(0))
    assert "lbfgs from a random start" in guess.how


@pytest.mark.parametrize("optimiser", ["lbfgs", "adam"])
def test_clients_matched_together_are_those_matched_alone(
    optimiser: Literal["lbfgs", "adam"],
) -> None:
    """Of three rankers, with more and fewer items; one of them cannot be joined with others."""
    games = [searched(1, 0, 0), searched(3, 4, 1), searched(2, 0, 2), pointwise(5, 3, 0, 3)]
    games += [pointwise(4, 3, 0, 4), searched(2, 0, 5), *recommended(users=2, learner=TINY)]
    views = [game.view for game in games]
    learner = views[2].learner
    assert isinstance(learner, Pairwise)
    views[2] = dataclasses.replace(views[2], learner=dataclasses.replace(learner, lr=0.3))
    attack = RAIFLE("match", steps=12, rounding="half", optimiser=optimiser)
    rng = np.random.default_rng(0)
    together, rng = list(attack.many(views, rng)), np.random.default_rng(0)
    for view, guess in zip(views, together, strict=True):
        alone = attack(view, rng)
        np.testing.assert_allclose(guess.score, alone.score, atol=1e-3)
        assert guess.how.partition(", loss")[0] == alone.how.partition(", loss")[0]


def test_of_several_starts_the_one_with_the_least_loss_counts() -> None:
    victims = []
    for game in [searched(3, 4, 0), searched(2, 0, 1)]:
        view = game.view
        sent = {n: torch.from_numpy(np.array(w)) for n, w in view.rounds[0].sent.items()}
        update = {n: torch.from_numpy(w) for n, w in view.rounds[0].change("0").items()}
        assert view.learner is not None
        victims.append(Victim(view.learner, sent, torch.tensor(view.inputs), update))
    first, several = (
        list(
            Matching("lbfgs", 5, joint=True, starts=starts).match(victims, np.random.default_rng(0))
        )
        for starts in (1, 4)
    )
    for one, best in zip(first, several, strict=True):
        assert best.loss <= one.loss
        assert best.evaluations > one.evaluations
    assert any(best.loss < one.loss for one, best in zip(first, several, strict=True))


def test_the_published_code_keeps_its_embedding_and_drops_a_part_of_the_derivative() -> None:
    def scores(game: UserGame, code: Code, *, joint: bool = True) -> np.ndarray:
        attack = RAIFLE("match", steps=4, joint=joint, code=code)
        return attack(game.view, np.random.default_rng(0)).score

    (user,) = recommended(users=1, learner=TINY)
    fixed = scores(user, "corrected", joint=False)
    np.testing.assert_array_equal(fixed, scores(user, "published"))
    several = searched(3, 4, 0)
    assert not np.allclose(scores(several, "corrected"), scores(several, "published"))
    once = searched(1, 4, 0)  # weights do not drift: there is nothing to drop
    np.testing.assert_allclose(scores(once, "corrected"), scores(once, "published"))


def test_the_fault_of_the_published_code_costs_it_clicks() -> None:
    """Users of five SYNTHETIC queries and a ranker of eight units, whose weights drift."""
    queries = synthetic_queries(60, 12, np.random.default_rng(0))
    world = Searching(queries, published_click_model("informational", 3))
    games = []
    for seed in range(5):
        weights = ranker(12, 8, torch.Generator().manual_seed(seed))
        games.append(world.challenge(weights, 5, NONE, np.random.default_rng(seed)))
    means: dict[Code, float] = {"corrected": 0.0, "published": 0.0}
    for code in means:
        attack = RAIFLE("match", steps=60, code=code)
        guesses = attack.many([game.view for game in games], np.random.default_rng(0))
        pairs = zip(guesses, games, strict=True)
        aucs = [metrics.measure_user(guess, game.truth).auc for guess, game in pairs]
        means[code] = float(np.mean(aucs))
    assert means["corrected"] > means["published"] + 0.02


def test_methods_may_differ_between_clients() -> None:
    """Users of search engines and of a recommender in one call, which gives guesses in order."""
    games = [searched(1, 4, 0), *recommended(users=2)]
    games.insert(1, searched(2, 0, 1))
    found = list(RAIFLE().many([game.view for game in games], np.random.default_rng(0)))
    assert [len(guess.score) for guess in found] == [len(game.truth.acted) for game in games]
    assert all(
        metrics.measure_user(g, game.truth).auc > 0.9 for g, game in zip(found, games, strict=True)
    )


def test_an_error_in_one_descent_ends_all_others() -> None:
    before = threading.active_count()
    views = [searched(1, 0, seed).view for seed in range(3)]
    (seen,) = views[1].rounds
    got = seen.received["0"]
    broken = dataclasses.replace(got, tensors={n: w * np.nan for n, w in got.tensors.items()})
    views[1] = dataclasses.replace(
        views[1], rounds=(dataclasses.replace(seen, received={"0": broken}),)
    )
    with pytest.raises(DataError, match="a finite distance"):
        list(RAIFLE("match", steps=50).many(views, np.random.default_rng(0)))
    assert threading.active_count() == before


def test_an_error_in_a_simulation_leaves_no_descent_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise DataError("no training today")

    monkeypatch.setattr(simulated_updates.JointSimulation, "slopes", fail)
    before = threading.active_count()
    views = [searched(1, 0, seed).view for seed in range(3)]
    with pytest.raises(DataError, match="no training today"):
        list(RAIFLE("match").many(views, np.random.default_rng(0)))
    assert threading.active_count() == before


def test_queries_in_an_unknown_order_are_allowed_for() -> None:
    """Each drawn order holds the same queries, and the clicks of four come back."""
    games = [searched(4, 6, seed) for seed in range(2)]
    for game in games:
        learner = game.view.learner
        assert isinstance(learner, Pairwise)
        (other,) = learner.reorder(np.random.default_rng(1), 1).query
        assert len(set(zip(learner.query, other, strict=True))) == len(set(other)) == 4
    assert np.mean([attacked(game).auc for game in games]) > 0.95


def test_rehearsals_settle_the_sign_of_a_recommenders_updates() -> None:
    """Users who acted on most items, whom the sum of directions alone turns around."""
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.choice(60, 40, replace=False) for _ in range(3)])
    log = interactions.InteractionLog(np.repeat(np.arange(3), 40), items, 3, 60)
    world = Recommending(log, NeuralCF(width=16, hidden=(32, 16), epochs=5), embeddings_only=True)
    games = list(world.challenges(range(3), NONE))
    for game in games:
        blind = dataclasses.replace(game.view, learner=None)
        guess = RAIFLE()(blind, np.random.default_rng(0))
        assert metrics.measure_user(guess, game.truth).auc < 0.05
        assert attacked(game).auc > 0.95


def test_the_way_is_chosen_by_the_view_and_said() -> None:
    ways = {
        "embedding": recommended()[0],
        "closed form": pointwise(4, 6, 0, 0),
        "posterior": searched(2, 0, 0),
    }
    for way, game in ways.items():
        assert RAIFLE()(game.view, np.random.default_rng(0)).how.startswith(way)


@pytest.mark.parametrize("kind", ["recommender", "search", "pointwise"])
def test_an_update_without_signal_is_at_chance(kind: str) -> None:
    """Noise of ε = 1: the interval over users covers one half."""
    noise = LocalNoise(1.0, 1e-8, 0.05)
    if kind == "recommender":
        log = interactions.synthetic_interactions(25, 60, np.random.default_rng(1), mean=6.0)
        world = Recommending(log, NeuralCF(width=8, hidden=(8,), epochs=2), embeddings_only=True)
        games = list(world.challenges(range(25), noise))
    elif kind == "search":
        games = [searched(2, 0, seed, noise) for seed in range(25)]
    else:
        games = [pointwise(10, 12, 0, seed, defence=noise) for seed in range(25)]
    assert 0.5 in metrics.mean_over_users([attacked(game).auc for game in games])


def test_what_is_missing_is_said() -> None:
    view = recommended()[0].view
    rng = np.random.default_rng(0)
    assert RAIFLE().needs == Need.UPDATES | Need.INPUTS
    assert RAIFLE().needs in view.offers
    assert Need.INPUTS not in dataclasses.replace(view, inputs=None).offers
    with pytest.raises(NotApplicable, match="a linearised learner"):
        RAIFLE("gauss-newton")(view, rng)
    ranking = searched(1, 0, 0).view
    with pytest.raises(NotApplicable, match="the view has none"):
        RAIFLE()(dataclasses.replace(ranking, learner=None), rng)
    with pytest.raises(NotApplicable, match="a row for each item"):
        RAIFLE("embedding")(ranking, rng)
    with pytest.raises(SpecError, match="one of steps or more"):
        RAIFLE(steps=0)


def test_a_misspelt_method_is_answered_with_the_nearest() -> None:
    made: Any = object.__new__(RAIFLE)  # past the shape checker, which runs in tests alone
    object.__setattr__(made, "method", "mach")
    with pytest.raises(SpecError, match="did you mean 'match'"):
        made.__post_init__()


def test_a_descent_that_breaks_down_is_an_error() -> None:
    @dataclasses.dataclass(frozen=True)
    class Broken(Pairwise):
        def update(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
            return {n: v * torch.nan for n, v in super().update(*args, **kwargs).items()}

    view = searched(1, 0, 0).view
    assert isinstance(view.learner, Pairwise)
    broken = dataclasses.replace(view, learner=Broken(view.learner.query))
    with pytest.raises(DataError, match="a finite distance"):
        RAIFLE("match", steps=2)(broken, np.random.default_rng(0))


def test_a_client_can_attack_its_own_update() -> None:
    game = searched(2, 0, 1)
    view = game.view
    assert view.inputs is not None
    (seen,) = view.rounds
    test = OwnInteractions(RAIFLE(), view.inputs, game.truth.acted, view.learner)

    def score(update: dict[str, np.ndarray]) -> float:
        return test(Outgoing(update, seen.sent, None, LocalTraining(lr=0.1)))

    change = seen.change("0")
    assert score(change) == 2 * attacked(game).auc - 1 > 0.9
    noise = np.random.default_rng(0)
    assert score({name: noise.normal(size=w.shape) for name, w in change.items()}) < 0.9
    with pytest.raises(DataError, match="can be attacked"):
        dataclasses.replace(test, learner=None)(Outgoing(change, seen.sent, None, LocalTraining()))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=8))
def test_the_threshold_splits_with_least_variance(values: list[int]) -> None:
    score = np.array(values, float)
    found = decisions.otsu_threshold(score)

    def within(edge: float) -> float:
        return sum(
            float(((part - part.mean()) ** 2).sum())
            for part in (score[score <= edge], score[score > edge])
            if len(part)
        )

    assert within(found) <= min(within(edge) for edge in values) + 1e-9
    inside = decisions.rescale_to_unit(score, found)
    assert ((inside >= 0) & (inside <= 1)).all()
    np.testing.assert_array_equal(inside > 0.5, score > found)


def test_a_pairwise_update_of_one_query_leaves_a_constant_open() -> None:
    game = searched(1, 0, 0)
    assert isinstance(game.view.learner, Pairwise)
    assert "which do not determine them" in RAIFLE()(game.view, np.random.default_rng(0)).how
    assert attacked(game).f1 == 1.0


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_updates_of_items_are_compared_at_a_length_of_100_at_least(size: float) -> None:
    items = torch.zeros(3, 4)
    update = {"items": torch.full((3, 4), size / 2)}  # rows of length ``size``

    class Fixed:
        private = 0

        def update(self, *_: Any) -> dict[str, Any]:
            return {"items": update["items"] + torch.tensor([[2.0, 0, 0, 0]] * 3)}

    batch = simulated_updates.ClientBatch([Victim(Fixed(), {}, items, update)])
    (found,) = batch.distances(torch.zeros(1, 3), None)
    assert float(found) == pytest.approx(2 * max(100 / size, 1))
