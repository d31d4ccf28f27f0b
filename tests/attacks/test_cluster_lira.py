"""ClusterLiRA finds clusters wherever they lie, and is silent where there are none."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from divulge.attacks.assignment.baselines import Nobody
from divulge.attacks.membership.cluster_lira import attack, clusters, mixtures, tempered_ratio
from divulge.attacks.membership.cluster_lira.attack import ClusterLiRA
from divulge.attacks.membership.cluster_lira.clusters import Population
from divulge.attacks.membership.cluster_lira.shape import FREEDOM, Shape
from divulge.attacks.membership.threshold import Threshold
from divulge.attacks.shared import decision
from divulge.core import Assignment, ModelView, Records
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.federation.local_models import AssignmentGame
from divulge.metrics import assignment as metrics
from divulge.metrics import intervals, membership
from divulge.targets.function import FunctionTarget
from divulge.testing import clients
from tests.golden import golden

from .. import federations

RNG = np.random.default_rng(0)
NO_DP = [
    ("real0", "cnn"),
    *(pytest.param(name, "cnn", marks=pytest.mark.slow) for name in ("rep0", "rep1", "rep2")),
]
DP = [(name, tier) for name in ("rep0", "rep1", "rep2") for tier in ("dpcnn200", "dpcnn10")]


def assigned(made: AssignmentGame) -> Assignment:
    return ClusterLiRA()(made.challenge.view, RNG)


@pytest.mark.parametrize("count", [2, 4])
def test_gives_members_to_their_client(count: int) -> None:
    made = clients.draw_game(0, clients=count)
    guess = assigned(made)
    assert metrics.recall(guess, made.challenge.truth).value > 0.8
    assert metrics.specificity(guess, made.challenge.truth).value > 0.8


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_knows_any_number_of_classes(classes: int) -> None:
    """A dozen classes leave five relevant records a class, and two classes one dimension."""
    made = clients.draw_game(1, clients=2, classes=classes)
    constant = metrics.best_constant(made.challenge.truth, made.challenge.view.collusion.records)
    assert metrics.accuracy(assigned(made), made.challenge.truth).value > constant.value


def test_is_silent_where_nothing_leaks() -> None:
    """One client in twenty may look as if it leaked: of 24, more than five would be one in 700."""
    dice = np.random.default_rng(12)
    heard = 0
    for _ in range(24):
        suspects, nonmembers = (
            Population(2 * dice.standard_t(3, size=(25, 2)), np.repeat([0, 1], [5, 20]))
            for _ in range(2)
        )
        heard += tempered_ratio.fit_ratio(suspects, nonmembers, 0.5, dice).strength > 0
    assert heard <= 5


def comparing(monkeypatch: pytest.MonkeyPatch, figure: Callable[..., float]) -> None:
    """Let any figure of suspects and nonmembers stand for the gain of the best search."""
    monkeypatch.setattr(
        tempered_ratio,
        "_best_model",
        lambda suspects, nonmembers, _: tempered_ratio._BestModel(
            100 + figure(suspects.z, nonmembers.z), 0, 1.0, np.zeros(2)
        ),
    )
    monkeypatch.setattr(tempered_ratio, "_candidate_models", lambda *_: [None])


def drawn(dice: np.random.Generator, count: int) -> Population:
    return Population(dice.standard_t(3, size=(count, 1)), np.repeat([0, 1], [count - 4, 4]))


def test_claims_on_one_of_twenty_whatever_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate rests on exchanges alone: where no two sets are alike, it is just 1 in 20."""
    comparing(monkeypatch, lambda ours, theirs: ours.mean() + (theirs**2).mean())
    dice = np.random.default_rng(13)
    claims = sum(
        tempered_ratio.fit_ratio(drawn(dice, 9), drawn(dice, 13), 0.5, dice).strength > 0
        for _ in range(1500)
    )
    low, high = intervals.clopper_pearson(claims, 1500)
    assert low <= 1 / (1 + tempered_ratio.PERMUTATIONS) <= high


def test_rounding_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all sets are alike, the true one may look higher for the order that it comes in."""
    comparing(monkeypatch, lambda ours, _: 1e-9 * float(ours[0, 0]))
    dice = np.random.default_rng(14)
    suspects = drawn(dice, 9)
    suspects.z[0] = suspects.z.max() + 1
    for _ in range(20):
        assert tempered_ratio.fit_ratio(suspects, drawn(dice, 9), 0.5, dice).strength == 0


def test_exchanges_draw_as_many_of_each_class_from_both() -> None:
    z = np.arange(12.0)[:, None]
    suspects = Population(z[:5], np.array([0, 0, 0, 1, 1]))
    nonmembers = Population(z[5:], np.array([0, 0, 1, 1, 1, 2, 2]))
    first = []
    for seed in range(300):
        ours, theirs = tempered_ratio._permute_within_classes(
            suspects, nonmembers, np.random.default_rng(seed)
        )
        np.testing.assert_array_equal(np.sort(np.concatenate([ours.z, theirs.z]), axis=0), z)
        np.testing.assert_array_equal(np.bincount(ours.y, minlength=3), [3, 2, 0])
        np.testing.assert_array_equal(np.bincount(theirs.y), [2, 3, 2])
        np.testing.assert_array_equal(ours.y[ours.z[:, 0].argsort()][:1], [0])
        first.append(0.0 in ours.z)
    assert abs(np.mean(first) - 3 / 5) < 4 * np.sqrt(0.24 / 300)  # each of a class alike


def test_what_is_found_does_not_depend_on_who_comes_first() -> None:
    """Answers are described alike for suspects and non-members, so that they can change places."""
    made = clients.draw_game(3)
    view = made.challenge.view
    one, other = ClusterLiRA()._points(view.targets[0], view.relevant[0], view.external[0])
    later, earlier = ClusterLiRA()._points(view.targets[0], view.external[0], view.relevant[0])
    np.testing.assert_array_equal(one.z, earlier.z)
    np.testing.assert_array_equal(other.z, later.z)


def test_posteriors_are_shares_of_one_and_the_guess_is_the_likeliest() -> None:
    made = clients.draw_game(2, clients=2)
    guess = assigned(made)
    assert guess.score is not None
    nobody = 1 - guess.score.sum(axis=1)
    assert (guess.score >= 0).all()
    assert (nobody >= -1e-12).all()
    table = np.column_stack([nobody, guess.score])
    np.testing.assert_array_equal(table.argmax(axis=1) - 1, guess.client)
    own = made.challenge.view.collusion
    assert (guess.client[own.records] == own.client).all()
    assert not (guess.client[~own.records] == own.client).any()


def test_candidates_of_a_silent_client_are_in_an_order_that_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Members are surer of their labels, and no gain is ever evidence: nobody is claimed."""
    made = clients.draw_game(3, leak=0.0, sure=2.0)
    monkeypatch.setattr(tempered_ratio, "LEAST", np.inf)
    guess, known = assigned(made), made.challenge.view.collusion
    nobody = Nobody()(made.challenge.view, RNG)
    np.testing.assert_array_equal(guess.client, nobody.client)
    pairs = metrics.pairs(guess, made.challenge.truth, known)
    assert membership.auc(pairs.score, pairs.member).value == golden(0.6917)


def test_an_order_changes_scores_and_no_decision() -> None:
    view = clients.draw_game(3).challenge.view
    ratio = RNG.normal(size=(len(view.records), len(view.targets)))
    order = 9 * RNG.normal(size=ratio.shape)
    plain = decision.decide_by_posterior(view, ratio, 0 * order)
    ordered = decision.decide_by_posterior(view, ratio, order)
    np.testing.assert_array_equal(plain.client, ordered.client)
    assert plain.score is not None
    assert ordered.score is not None
    assert not np.array_equal(plain.score, ordered.score)
    both = decision.decide_by_posterior(view, ratio + order, 0 * order)
    assert both.score is not None
    np.testing.assert_array_equal(both.score, ordered.score)


def test_confidence_is_compared_within_classes_whatever_it_is_measured_in() -> None:
    z, y = RNG.normal(size=(40, 2)), np.arange(40) % 3
    parts = [Population(z[a:b], y[a:b]) for a, b in ((0, 10), (10, 30), (30, 40))]
    found = attack._excess_confidence(*parts)
    shifted = [Population(3 * part.z + part.y[:, None], part.y) for part in parts]
    np.testing.assert_allclose(attack._excess_confidence(*shifted), found, atol=1e-12)
    whole = [Population(np.ones_like(part.z), part.y) for part in parts]
    np.testing.assert_array_equal(attack._excess_confidence(*whole), np.zeros(20))


def test_the_only_record_of_a_class_is_as_confident_as_its_class() -> None:
    lone = Population(np.array([[5.0, 0.0], [1.0, 0.0]]), np.array([0, 1]))
    others = Population(np.array([[2.0, 0.0], [3.0, 0.0]]), np.array([1, 1]))
    found = attack._excess_confidence(others, lone, others)
    assert found[0] == 0.0
    assert found[1] < 0.0


@pytest.mark.slow
def test_sees_clusters_that_no_one_sided_score_can() -> None:
    """Members lie at one point, and others on all sides of it."""
    ours, loss = [], []
    for seed in (5, 6):
        made = clients.draw_game(seed)
        for k, members in enumerate(made.relevant):
            view = made.challenge.view
            alone = ModelView(view.targets[k], view.relevant[k], view.external[k])
            ours.append(membership.auc(ClusterLiRA()(alone, RNG).score, members).value)
            loss.append(membership.auc(Threshold()(alone, RNG).score, members).value)
    assert intervals.student_mean(np.subtract(ours, loss).tolist()).low > 0


def test_one_cluster_is_found_where_it_is() -> None:
    rng = np.random.default_rng(6)
    z = np.concatenate([rng.normal(2, 0.1, (20, 2)), rng.normal(0, 2, (20, 2))])
    nobodies = rng.normal(0, 2, (60, 2))
    suspects = Population(z, np.zeros(40, np.int64))
    nonmembers = Population(nobodies, np.zeros(60, np.int64))
    widths = (1 / 16, 1 / 64)
    for width, found in zip(
        widths, clusters.fit_clusters(suspects, nonmembers, 0.5, widths), strict=True
    ):
        atol = 4 * 0.1 / np.sqrt(20)  # four standard errors of a mean of the 20
        np.testing.assert_allclose(found.inside.mean[0], [2, 2], atol=atol)
        (alone,) = clusters.fit_clusters(suspects, nonmembers, 0.5, (width,))
        np.testing.assert_allclose(alone.inside.scatter, found.inside.scatter)


def test_groups_of_any_size_come_out_together_as_each_alone() -> None:
    rng = np.random.default_rng(9)
    sizes = (3, 400, 17, 40, 3, 700)
    groups = [np.round(rng.normal(k, 1, (size, 2)), 2) for k, size in enumerate(sizes)]
    others = Shape(rng.normal(size=(6, 2)), np.broadcast_to(np.eye(2), (6, 2, 2)))
    together = mixtures.find_clusters(groups, others, 0.4, (1.0, 0.1))
    for k, points in enumerate(groups):
        alone = mixtures.find_clusters([points], others.take(np.array([k])), 0.4, (1.0, 0.1))
        # scatters are of size 0.1 to 1; off the diagonal one can be 0 but for their rounding
        for one, other in ((together.mean, alone.mean), (together.scatter, alone.scatter)):
            np.testing.assert_allclose(one[:, k], other[:, 0], rtol=1e-6, atol=1e-9)


def test_a_step_is_that_of_the_textbook() -> None:
    """Expectation and maximisation with weights, means and scatters written out."""
    rng = np.random.default_rng(10)
    z, share = rng.normal(size=(30, 2)), 0.4
    other, expected = rng.normal(size=30), np.eye(2)
    among = mixtures._GroupPoints(z[None], np.ones((1, 1, 30), bool), other[None, None], share)
    start = Shape(np.zeros((1, 1, 2)), np.eye(2)[None, None])
    found = among.run_em(start, np.full((1, 1, 1), share), expected[None, None], 1)
    ours = share * np.exp(-0.5 * (z**2).sum(axis=1))
    weight = ours / (ours + (1 - share) * np.exp(other))
    mean = np.average(z, axis=0, weights=weight)
    scatter = sum(w * np.outer(row - mean, row - mean) for w, row in zip(weight, z, strict=True))
    belief = mixtures.SCATTER_COUNT
    np.testing.assert_allclose(found.cluster.mean[0, 0], mean)
    np.testing.assert_allclose(
        found.cluster.scatter[0, 0], (scatter + belief * expected) / (weight.sum() + belief)
    )
    believed = mixtures.PSEUDO_COUNT
    np.testing.assert_allclose(found.share, (weight.sum() + believed * share) / (30 + believed))


def test_densities_are_those_of_scipy() -> None:
    from scipy import stats

    rng = np.random.default_rng(7)
    z, mean = rng.normal(size=(5, 3)), rng.normal(size=3)
    half = rng.normal(size=(3, 3))
    shape = Shape(mean, half @ half.T + np.eye(3))
    constant = 1.5 * np.log(2 * np.pi)
    gaussian = stats.multivariate_normal(mean, shape.scatter).logpdf(z)
    student = stats.multivariate_t(mean, shape.scatter, df=int(FREEDOM)).logpdf(z)
    np.testing.assert_allclose(shape.gaussian(z), gaussian + constant)
    np.testing.assert_allclose(shape.student(z), student + constant)


def test_the_prior_of_a_covariance_is_an_inverse_wishart() -> None:
    from scipy import stats

    rng = np.random.default_rng(8)
    halves = rng.normal(size=(4, 3, 3))
    scatter = halves @ halves.swapaxes(1, 2) + np.eye(3)
    expected, weight = np.diag([1.0, 2.0, 3.0]), mixtures.SCATTER_COUNT
    # of the density, ((degrees + 4) / 2) log determinants; the rest is the same for all
    law = stats.invwishart(weight - 4, weight * expected)
    density = np.array([float(law.logpdf(one)) for one in scatter])
    shape = Shape(np.zeros((4, 1, 3)), scatter[:, None])
    found = mixtures._log_prior(shape, np.tile(expected, (4, 1, 1, 1)))[:, 0]
    np.testing.assert_allclose(found - found[0], density - density[0])


@pytest.mark.parametrize(("name", "tier"), NO_DP)
def test_stand_in_packs_without_privacy(name: str, tier: str) -> None:
    made = federations.pack(name, tier)
    assert metrics.accuracy(assigned(made), made.challenge.truth).value >= 0.9


@pytest.mark.parametrize(("name", "tier"), DP)
def test_stand_in_packs_with_privacy(name: str, tier: str) -> None:
    made = federations.pack(name, tier)
    truth = made.challenge.truth
    constant = metrics.best_constant(truth, made.challenge.view.collusion.records)
    assert metrics.accuracy(assigned(made), truth).value >= constant.value - 0.03


def test_refuses_settings_without_meaning() -> None:
    for share in (0.0, 1.0):
        with pytest.raises(SpecError, match="expected share"):
            ClusterLiRA(share=share)
    with pytest.raises(SpecError, match="expected dimensions"):
        ClusterLiRA(dimensions=0)


def test_a_model_that_noise_has_ruined_is_attacked_like_any_other() -> None:
    """Its probabilities are 0, 1 and the least number that there is, of which half is 0."""
    rng = np.random.default_rng(0)
    asked, nonmembers = (
        Records(rng.normal(size=(40, 3)), rng.integers(0, 3, 40)) for _ in range(2)
    )

    def ruined(x: np.ndarray) -> np.ndarray:
        first = (x[:, 0] > 0).astype(np.float64)
        return np.column_stack([first, 1 - first, np.where(x[:, 1] > 0, 5e-324, 0.0)])

    found = ClusterLiRA()(ModelView(FunctionTarget(ruined), asked, nonmembers), RNG)
    assert np.isfinite(found.score).all()


def test_says_what_is_missing() -> None:
    view = clients.draw_game(8).challenge.view
    few = ModelView(view.targets[0], view.relevant[0], view.external[0].take(np.arange(7)))
    with pytest.raises(NotApplicable, match="8 or more records"):
        ClusterLiRA()(few, RNG)
    alone = dataclasses.replace(
        view, targets=view.targets[2:], relevant=view.relevant[2:], external=view.external[2:],
        updates=None,
        collusion=dataclasses.replace(view.collusion, client=0),
    )  # fmt: skip
    with pytest.raises(NotApplicable, match="beside the colluding one"):
        decision.clients_under_attack(alone)


def test_a_view_that_does_not_fit_together_is_refused() -> None:
    view = clients.draw_game(9).challenge.view
    with pytest.raises(DataError, match="relevant records for each of 3 clients, got 2"):
        dataclasses.replace(view, relevant=view.relevant[:2])
    with pytest.raises(DataError, match="from 0 to 2, got 3"):
        dataclasses.replace(view, collusion=dataclasses.replace(view.collusion, client=3))
    short = Records(view.records.x[:9], view.records.y[:9])
    with pytest.raises(DataError, match="100 for 9 records"):
        dataclasses.replace(view, records=short)
    with pytest.raises(DataError, match="or -1 for nobody, got -2"):
        Assignment(np.array([-2]))


def test_blocks_hold_every_group_once_and_no_more_points_than_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixtures, "_AT_ONCE", 20)
    sizes = [5, 3, 30, 5, 4, 5, 1, 20]
    blocks = list(mixtures._group_blocks([np.zeros((size, 2)) for size in sizes]))
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(sizes)))
    for block in blocks:  # each is padded to its longest; one group alone may be too long
        assert len(block) == 1 or len(block) * max(sizes[k] for k in block) <= 20
    assert max(map(len, blocks)) > 2


@pytest.mark.parametrize("everything", [False, True])
def test_clients_are_expected_to_have_half_of_the_candidates_at_most(everything: bool) -> None:
    view = clients.draw_game(2).challenge.view
    known = view.collusion
    records = np.full_like(known.records, everything)
    told = dataclasses.replace(view, collusion=dataclasses.replace(known, records=records))
    shares = decision.expected_shares(told)
    own = np.array([len(relevant) for relevant in view.relevant])
    np.testing.assert_allclose(shares / shares.sum(), own / own.sum())
    rate = 0.5 / (len(known.relevant) + 1)  # half a record more, of one more
    assert shares.sum() == pytest.approx(0.5 if everything else rate * own.sum() / len(records))


def test_a_probability_of_zero_counts_as_half_of_the_smallest() -> None:
    found = attack._centre_log_probabilities(np.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]]))
    log = np.log([[0.125, 0.25, 0.75], [0.5, 0.5, 0.125]])
    np.testing.assert_allclose(found, log - log.mean(axis=1, keepdims=True), rtol=1e-12)
    tiny = np.finfo(np.float64).tiny
    smallest = attack._centre_log_probabilities(np.array([[0.0, tiny, 1.0]]))
    np.testing.assert_allclose(np.diff(smallest)[0], [0.0, -np.log(tiny)], atol=1e-9)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 9])
def test_a_record_is_described_by_its_class_and_those_that_vary_most_within_classes(
    dimensions: int,
) -> None:
    """One axis fewer than classes; what differs between classes is no variation."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 4000)
    answers = rng.normal(size=(4000, 4)) * [1.0, 3.0, 0.5, 2.0]
    answers[:, 2] += 100 * (y == 1)
    lively = [1, 3, 0, 2]
    count = min(dimensions, 3)
    expected = [[k, *[other for other in lively if other != k][: count - 1]] for k in range(4)]
    assert attack._choose_axes(answers, y, dimensions).tolist() == expected
