"""What shadow attacks share: ways of asking, blocks, and nothing that gives a stand-in away."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from divulge.attacks import catalog
from divulge.attacks.membership import pmia, rmia, shadow
from divulge.attacks.membership.base import BASE
from divulge.attacks.membership.calibrated import CalibratedLoss
from divulge.attacks.membership.lira import LiRA
from divulge.attacks.membership.pmia import PMIA
from divulge.attacks.membership.rmia import RMIA
from divulge.attacks.membership.shadow import Shadow
from divulge.attacks.membership.shadow_gap import ShadowGap
from divulge.attacks.membership.shadow_stack import attack as stack
from divulge.attacks.membership.shadow_stack import features, mix, networks
from divulge.attacks.membership.shadow_stack import rows as stack_rows
from divulge.attacks.membership.shadow_stack.attack import ShadowStack
from divulge.attacks.shared import shadow_signals, shadow_statistics, turns
from divulge.core import MembershipAttack, ModelView, Need, PoolPredictions, Records, Shadows
from divulge.errors import DataError, NotApplicable, SpecError
from divulge.metrics import membership
from divulge.metrics.softened import softened_log_probability
from divulge.secrets import attempt, control_games, wrapped
from divulge.secrets.controls import fewest_covered
from divulge.targets.recorded import RecordedTarget
from divulge.testing import forests, properties
from divulge.testing.membership import TwoWays
from tests.golden import golden

from .. import naive_shadows

ATTACKS = tuple(catalog.attack(name) for name in (*catalog.SHADOW_ATTACKS, "base", "pmia"))
FACTORS = (0.2, 0.3, 0.5, 0.6, 0.8)
"""RMIA's a at each temperature."""

each = pytest.mark.parametrize("attack", ATTACKS, ids=wrapped.attack_label)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def with_shadows(view: ModelView, **changes: object) -> ModelView:
    assert view.shadows is not None
    if "phi" in changes:  # of other models, or of other records
        changes.setdefault("softened", ())
    return dataclasses.replace(view, shadows=dataclasses.replace(view.shadows, **changes))  # type: ignore[arg-type]


def offline(view: ModelView, pool: PoolPredictions | None = None) -> ModelView:
    assert view.shadows is not None
    return with_shadows(view, member=np.zeros_like(view.shadows.member), pool=pool)


def pool_of(challenge_seed: int) -> PoolPredictions:
    """The same shadows' answers about the records they were trained on, as an offline pool's."""
    view = forests.leaky(challenge_seed).view
    assert view.shadows is not None
    return PoolPredictions(view.records.y, view.shadows.phi, view.shadows.member)


@each
def test_a_leak_is_found_by_two_ways_of_asking(attack: MembershipAttack) -> None:
    properties.finds_a_leak(properties.Case(TwoWays(), attack))


@pytest.mark.slow
@each
def test_nothing_is_seen_by_two_ways_of_asking_where_nothing_leaks(
    attack: MembershipAttack,
) -> None:
    properties.sees_nothing_where_nothing_leaks(properties.Case(TwoWays(), attack))


def test_the_planted_leak_is_in_every_way_of_asking() -> None:
    planted = control_games.plant_leak(forests.two_ways(forests.leaky(), 0))
    view, memorised = planted.view, planted.truth.member
    for records in (view.records, *view.augmented):
        told = view.target.predict(records.x)[np.arange(len(records)), records.y]
        assert told[memorised].min() >= 0.9
        assert told[~memorised].mean() < 0.7


@each
def test_a_second_way_that_says_the_same_changes_no_order(attack: MembershipAttack) -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    twice = dataclasses.replace(
        with_shadows(view, augmented_phi=(view.shadows.phi,), softened=2 * view.shadows.softened),
        augmented=(view.records,),
    )
    once, again = attack(view, rng()).score, attack(twice, rng()).score
    # both sum log ratios over the ways, the others average them
    factor = 2 if isinstance(attack, LiRA | ShadowGap) else 1
    np.testing.assert_allclose(again, factor * once, rtol=1e-9, atol=1e-9)


@each
def test_shadows_asked_in_other_ways_than_the_target_are_refused(attack: MembershipAttack) -> None:
    view = forests.leaky().view
    odd = dataclasses.replace(view, augmented=(view.records,))
    with pytest.raises(DataError, match="further ways of asking"):
        attack(odd, rng())


def asked_in_two_ways(*, online: bool) -> ModelView:
    """Records that two shadows or more know, and two or more do not."""
    view = forests.two_ways(forests.leaky(), 0).view
    assert view.shadows is not None
    counts = view.shadows.member.sum(1)
    view = forests.part(view, np.flatnonzero((counts > 1) & (counts < forests.SHADOWS - 1)))
    return view if online else offline(view)


@pytest.mark.parametrize("variance", ["global", "record", "shrunk", "shrunk-gaussian"])
@pytest.mark.parametrize("online", [True, False])
def test_lira_agrees_with_its_naive_twin_in_two_ways(*, online: bool, variance: str) -> None:
    view = asked_in_two_ways(online=online)
    lira = LiRA(variance=variance)(view, rng()).score  # type: ignore[arg-type]
    np.testing.assert_allclose(lira, naive_shadows.lira(view, variance), atol=1e-8)


@pytest.mark.parametrize("online", [True, False])
def test_attacks_agree_with_their_naive_twins_in_two_ways(*, online: bool) -> None:
    view = asked_in_two_ways(online=online)
    assert view.reference is not None
    others = len(view.reference)
    for temperature, weight in ((1.0, 0.5), (2.0, 0.8)):
        score = RMIA(temperature, weight, a=0.3)(view, rng()).score
        shares = np.floor(score * others) / others
        naive = naive_shadows.rmia(view, temperature, weight, 0.3)
        np.testing.assert_allclose(shares, naive, atol=1e-12)
    np.testing.assert_allclose(
        BASE(0.4)(view, rng()).score, naive_shadows.base(view, 0.4), atol=1e-9
    )
    if online:
        score = CalibratedLoss()(view, rng()).score
        np.testing.assert_allclose(score, naive_shadows.calibrated(view), atol=1e-9)


@each
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_and_storage_change_nothing(
    attack: MembershipAttack, order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only mapped matrix, read a few records at a time, gives the same bits."""
    view = forests.two_ways(forests.leaky(), 0).view
    assert view.shadows is not None
    whole = attack(view, rng()).score
    mapped = []
    for i, phi in enumerate((view.shadows.phi, *view.shadows.augmented_phi)):
        # by rows a record, or, as when each model's answers are one row, by columns
        np.save(tmp_path / f"{i}.npy", phi if order == "C" else np.ascontiguousarray(phi.T))
        on_disk = np.load(tmp_path / f"{i}.npy", mmap_mode="r")
        mapped.append(on_disk if order == "C" else on_disk.T)
    monkeypatch.setattr(shadow_signals, "BLOCK", 2 * forests.SHADOWS * 7)
    kept = view.shadows.softened
    far = with_shadows(view, phi=mapped[0], augmented_phi=tuple(mapped[1:]), softened=kept)
    blocks = list(shadow_signals.read_blocks(far.shadows))  # type: ignore[arg-type]
    assert {len(block.member) for block in blocks[:-1]} == {7}
    np.testing.assert_array_equal(attack(far, rng()).score, whole)


@each
def test_half_precision_on_disk_is_computed_with_in_full(attack: MembershipAttack) -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    single = view.shadows.phi.astype(np.float32)
    kept = (view.shadows.softened[0].astype(np.float32),)
    short = attack(with_shadows(view, phi=single, softened=kept), rng()).score
    double = with_shadows(
        view, phi=single.astype(np.float64), softened=(kept[0].astype(np.float64),)
    )
    np.testing.assert_array_equal(short, attack(double, rng()).score)


def test_what_others_say_holds_no_trace_of_the_one_that_plays() -> None:
    """Not even by rounding: it could be learned, and read where the target plays."""
    r = rng()
    phi, member = r.normal(size=(500, 6)).round(1), r.random((500, 6)) < 0.5
    for k in range(6):
        other_phi, other_member = phi.copy(), member.copy()
        other_phi[:, k], other_member[:, k] = 9 * r.normal(size=500), ~member[:, k]
        sums = [
            features.leave_one_out_sums(shadow_signals.RecordBlock(slice(0, 500), (p,), m)).column(
                k, slice(None)
            )
            for p, m in ((phi, member), (other_phi, other_member))
        ]
        usual = features.PooledStatistics(1.0, 1.0, 1.0, FACTORS)
        seen = [features.leave_one_out_features(phi[:, k], of, usual) for of in sums]
        np.testing.assert_array_equal(seen[0].learned, seen[1].learned)
        np.testing.assert_array_equal(seen[0].ratios, seen[1].ratios)


def test_sums_of_the_others_agree_with_their_naive_twin() -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    phi, member = view.shadows.phi, view.shadows.member
    sides = features.leave_one_out_sums(
        shadow_signals.RecordBlock(slice(0, len(phi)), (phi,), member)
    )
    compared = 0
    for k in range(forests.SHADOWS):
        inside, outside = sides.column(k, slice(None))
        for i in range(0, len(phi), 29):
            if not 0 < np.delete(member[i], k).sum() < forests.SHADOWS - 1:
                continue
            found = {
                "mean_in": inside.mean[i],
                "mean_out": outside.mean[i],
                "scatter_in": inside.scatter[i],
                "scatter_out": outside.scatter[i],
                "p_in": inside.mean_likelihood[0, i],
                "p_out": outside.mean_likelihood[0, i],
            }
            assert found == pytest.approx(naive_shadows.others(phi, member, k, i), abs=1e-9)
            compared += 1
    assert compared > 50


@pytest.mark.slow
def test_the_stack_learns_nothing_from_shadows_that_leak_nothing() -> None:
    """Answers that do not depend on membership teach no rule, however many ties they have."""
    covered = 0
    runs = 20
    for seed in range(runs):
        r = np.random.default_rng(seed)
        challenge = forests.leaky(0)
        assert challenge.view.shadows is not None
        shape = challenge.view.shadows.phi.shape
        votes = r.choice([-500.0, -1.0, 1.0, 500.0], size=shape)  # two of them saturated
        view = with_shadows(challenge.view, phi=votes, member=r.random(shape) < 0.5)
        stand_in = Told(votes[:, 0], view)
        rest = with_shadows(
            dataclasses.replace(view, target=stand_in),
            phi=votes[:, 1:],
            member=view.shadows.member[:, 1:],  # type: ignore[union-attr]
            reference_phi=view.shadows.reference_phi[:, 1:],  # type: ignore[union-attr]
        )
        score = ShadowStack()(rest, np.random.default_rng(seed)).score
        covered += 0.5 in membership.auc(score, view.shadows.member[:, 0])  # type: ignore[union-attr]
    assert covered >= fewest_covered(runs)


@dataclasses.dataclass(frozen=True)
class Told:
    """A target that says φ as told."""

    phi: np.ndarray
    view: ModelView

    @property
    def offers(self) -> Need:
        return self.view.target.offers

    def predict(self, x: np.ndarray) -> np.ndarray:
        del x
        p = 1 / (1 + np.exp(-np.clip(self.phi, -30, 30)))
        answers = np.repeat(((1 - p) / (forests.CLASSES - 1))[:, None], forests.CLASSES, axis=1)
        answers[np.arange(len(p)), self.view.records.y] = p
        return np.asarray(answers / answers.sum(axis=1, keepdims=True))


def test_rmias_factor_is_the_fit_of_its_naive_twin_and_blind_to_the_target() -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    a = rmia.fit_factor(view)
    assert a == pytest.approx(naive_shadows.factor(view.shadows.phi, view.shadows.member), abs=0.02)
    assert a == rmia.fit_factor(forests.leaky().view) != shadow_statistics.PAPERS_FACTOR
    other = dataclasses.replace(view, target=forests.leaky(1).view.target)
    assert a == rmia.fit_factor(other)
    turned = np.random.default_rng(1).permutation(len(view.records))
    assert a == pytest.approx(rmia.fit_factor(forests.part(view, turned)), abs=1e-12)


def test_the_factor_is_the_same_to_the_last_bit_in_any_order_of_records() -> None:
    """shadow-stack's networks turn one rounding into scores that differ in the fourth digit."""
    rng = np.random.default_rng(4)
    inside, outside = rng.random((2, 600))
    fitted = {
        shadow_statistics.fit_in_out_factor(
            shadow_statistics.InOutMeans(inside[order], outside[order])
        )
        for order in (rng.permutation(600) for _ in range(20))
    }
    assert len(fitted) == 1


def test_the_density_of_a_further_phi_is_students_with_the_mean_uncertain() -> None:
    """A mean of n has 1 / n of the variance of one; without shadows it counts as one."""
    rng = np.random.default_rng(0)
    models = np.array([0, 1, 2, 5, 64])
    phi, mean, variance = rng.normal(size=5), rng.normal(size=5), rng.exponential(size=5)
    freedom = np.array([0, 0, 1, 4, 63]) + shadow_statistics.PRIOR
    wide = np.sqrt(variance * np.array([2, 2, 1.5, 1.2, 1 + 1 / 64]))
    constant = stats.t.logpdf(0, freedom)
    np.testing.assert_allclose(
        shadow_statistics.student_log_density(phi, mean, variance, models),
        stats.t.logpdf(phi, freedom, mean, wide) - constant,
        rtol=1e-9,
    )


def test_offline_the_factor_comes_from_the_pool_or_is_the_papers() -> None:
    view = forests.leaky().view
    assert rmia.fit_factor(offline(view)) == shadow_statistics.PAPERS_FACTOR
    assert rmia.fit_factor(offline(view, pool_of(1))) == rmia.fit_factor(forests.leaky(1).view)


@pytest.mark.parametrize("online", [True, False])
def test_shadows_choose_temperature_and_weight_as_their_naive_twin_does(*, online: bool) -> None:
    dice = np.random.default_rng(3)
    member = dice.random((80, 4)) < 0.5  # some are known to all shadows, or to none
    phi = 3 * dice.normal(size=(80, 1)) + 2 * member + dice.normal(size=(80, 4))
    told = PoolPredictions(np.zeros(80, np.int64), phi, member)
    grid = (1.0, 2.0, 4.0), (0.2, 0.5, 0.9)
    pairs = list(itertools.product(*grid))
    gains = rmia.gains_by_shadows(told, *grid, None, online=online)
    naive = [naive_shadows.rmia_log_rank(phi, member, *pair, online=online) for pair in pairs]
    np.testing.assert_allclose(gains, naive, rtol=1e-9)
    assert np.ptp(gains) > 0.05 * np.mean(gains)


def test_temperature_and_weight_are_what_the_shadows_tell_best_and_blind_to_the_target() -> None:
    view = forests.leaky().view
    chosen = rmia.choose_temperature_and_weight(view, RMIA())
    gains = rmia.gains_by_shadows(
        view.shadows,  # type: ignore[arg-type]
        *(shadow_statistics.TEMPERATURES, shadow_statistics.WEIGHTS, None),
        online=True,
    )
    pairs = list(itertools.product(shadow_statistics.TEMPERATURES, shadow_statistics.WEIGHTS))
    assert chosen == pairs[int(np.argmax(gains))] != rmia.USUAL
    other = dataclasses.replace(view, target=forests.leaky(1).view.target)
    assert rmia.choose_temperature_and_weight(other, RMIA()) == chosen
    given = rmia.choose_temperature_and_weight(view, RMIA(temperature=3.0))
    assert given[0] == 3.0
    assert given[1] in shadow_statistics.WEIGHTS
    assert rmia.choose_temperature_and_weight(view, RMIA(3.0, 0.1)) == (3.0, 0.1)


def test_without_shadows_that_can_choose_temperature_and_weight_are_the_usual() -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    one = with_shadows(
        view,
        phi=view.shadows.phi[:, :1],
        member=view.shadows.member[:, :1],
        reference_phi=view.shadows.reference_phi[:, :1],
    )
    for alone in (offline(view), one):
        assert rmia.choose_temperature_and_weight(alone, RMIA()) == rmia.USUAL
        assert rmia.choose_temperature_and_weight(alone, RMIA(weight=0.0)) == (2.0, 0.0)
        same = RMIA(*rmia.USUAL)(alone, rng()).score
        np.testing.assert_array_equal(RMIA()(alone, rng()).score, same)


def test_many_records_choose_by_an_even_part_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    view = forests.leaky().view
    monkeypatch.setattr(rmia, "CHOSEN_ON", 200)
    ways, member = rmia.sample_records(view.shadows)  # type: ignore[arg-type]
    assert len(member) == len(ways[0]) == len(view.records) // 3
    means = np.sort(view.shadows.phi.mean(axis=1))  # type: ignore[union-attr]
    error = means.std() / np.sqrt(len(member)) * np.sqrt(2 / 3)  # of a random third
    assert ways[0].mean(axis=1).mean() == pytest.approx(means.mean(), abs=4 * error)


def test_base_refuses_a_scale_that_is_no_share() -> None:
    with pytest.raises(SpecError, match="scale"):
        BASE(scale=1.5)


def test_base_does_not_apply_where_only_phi_was_kept() -> None:
    view = with_shadows(forests.leaky().view, softened=())
    with pytest.raises(NotApplicable, match="temperature 2"):
        BASE()(view, rng())


@pytest.mark.parametrize("online", [True, False])
def test_base_gives_the_scores_of_the_authors_formula_on_logits(*, online: bool) -> None:
    """LeakPro: log-softmax of logits / T, less the log of the mean of its exponential."""
    r, models, classes = rng(), 6, 30
    y = r.integers(0, classes, 300)
    logits = 4 * r.normal(size=(models + 1, 300, classes))
    logits[:, np.arange(300), y] += 8 * r.random((models + 1, 300))
    softened = [special.log_softmax(one / 2.0, axis=1)[np.arange(300), y] for one in logits]
    expected = special.logsumexp(softened[1:], axis=0) - np.log(models)
    naive = softened[0] - (1.0 if online else 0.33) * expected
    answers = special.softmax(logits, axis=2)
    member = r.random((300, models)) < (0.5 if online else 0.0)
    shadows = Shadows(
        np.zeros((300, models)), member, np.zeros((0, models)),
        softened=(np.stack([softened_log_probability(p, y) for p in answers[1:]], axis=1),),
    )  # fmt: skip
    rows = Records(np.arange(300.0)[:, None], y)
    target = RecordedTarget((rows,), answers[0], Need.PROBABILITIES)
    score = BASE()(ModelView(target, rows, shadows=shadows), r).score
    np.testing.assert_allclose(score, naive, atol=1e-9)


def test_the_softened_probability_is_that_of_the_logits_at_both_ends() -> None:
    logits = np.array([[40.0, 0.0, -3.0], [-40.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    y = np.zeros(3, np.int64)
    naive = special.log_softmax(logits / 2, axis=1)[:, 0]
    found = softened_log_probability(special.softmax(logits, axis=1), y)
    np.testing.assert_allclose(found, naive, rtol=1e-10, atol=1e-15)  # one less a share


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"weight": 1.1}, {"a": -0.1}])
def test_rmia_refuses_shares_that_are_none_and_no_temperature(settings: dict[str, float]) -> None:
    with pytest.raises(SpecError, match=next(iter(settings))):
        RMIA(**settings)


def test_a_chosen_factor_does_no_worse_than_the_papers_and_better_than_a_bad_one() -> None:
    """Offline, on records of very different difficulty; each gain is over 20 forests."""
    gains: dict[float, list[float]] = {shadow_statistics.PAPERS_FACTOR: [], 1.0: []}
    for seed in range(20):
        view, member = _offline_world(seed)
        chosen = stats.mannwhitneyu(*_groups(RMIA()(view, rng()).score, member)).statistic
        for a, gained in gains.items():
            fixed = stats.mannwhitneyu(*_groups(RMIA(a=a)(view, rng()).score, member)).statistic
            gained.append((chosen - fixed) / (member.sum() * (~member).sum()))
    error = {a: np.std(gained, ddof=1) / np.sqrt(20) for a, gained in gains.items()}
    assert (
        np.mean(gains[shadow_statistics.PAPERS_FACTOR])
        > -2 * error[shadow_statistics.PAPERS_FACTOR]
    )
    assert np.mean(gains[1.0]) > 5 * error[1.0]


def _groups(score: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return score[member], score[~member]


def _offline_world(seed: int) -> tuple[ModelView, np.ndarray]:
    """φ is a record's own difficulty, plus 4 if trained on it, plus noise."""
    r = np.random.default_rng(seed)
    view = forests.leaky().view
    assert view.reference is not None
    n, m, models = len(view.records), len(view.reference), 4

    def phi(size: int, inside: np.ndarray) -> np.ndarray:
        hard = 3 * np.random.default_rng([seed, size]).normal(size=(size, 1))
        return np.asarray(hard + 4 * inside + r.normal(size=inside.shape))

    member = r.random(n) < 0.5
    taught = r.random((n, models)) < 0.5
    nobody = np.zeros((n, models), np.bool_)
    both = phi(n, np.column_stack([member, nobody]))
    none = np.zeros((m, models + 1), np.bool_)
    beyond = phi(m, none)
    told = _By(np.concatenate([both[:, 0], beyond[:, 0]]), view)
    pool = PoolPredictions(view.records.y, phi(n, taught), taught)
    shadows = Shadows(both[:, 1:], nobody, beyond[:, 1:], pool=pool)
    return dataclasses.replace(view, target=told, shadows=shadows), member


@dataclasses.dataclass(frozen=True)
class _By(Told):
    """A target that says one φ of each candidate, then of each reference record."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        candidates, reference = self.view.records, self.view.reference
        assert reference is not None
        mine = len(x) == len(candidates)
        phi = self.phi[: len(candidates)] if mine else self.phi[len(candidates) :]
        asked = dataclasses.replace(self.view, records=candidates if mine else reference)
        return Told(phi, asked).predict(x)


def ratios(x: float, phi: np.ndarray, member: np.ndarray, k: int) -> Iterator[float]:
    """RMIA's log ratio of one record, at each temperature and weight, without shadow k."""
    rest = [j for j in range(len(phi)) if j != k]
    for temperature in (1.0, 1.5, 2.0, 3.0, 4.0):
        p = naive_shadows.sigmoid(phi / temperature)
        p_in = np.mean([p[j] for j in rest if member[j]])
        p_out = np.mean([p[j] for j in rest if not member[j]])
        for weight in (0.5, 0.6, 0.7, 0.8, 0.9):
            said = naive_shadows.sigmoid(np.array(x / temperature))
            yield math.log(said / (weight * p_in + (1 - weight) * p_out))


def test_leave_one_out_features_are_the_formulas_record_by_record() -> None:
    dice, k = np.random.default_rng(6), 3
    phi = dice.normal(0, 3, (40, 9))
    member = (np.arange(9) + np.arange(40)[:, None]) % 9 < 4  # of the eight others, 3 or 4
    usual = features.PooledStatistics(0.7, 1.3, 0.9, FACTORS)
    sums = features.leave_one_out_sums(shadow_signals.RecordBlock(slice(0, 40), (phi,), member))
    found = features.leave_one_out_features(phi[:, k], sums.column(k, slice(None)), usual)
    for i, row in enumerate(found.learned):
        each = list(ratios(float(phi[i, k]), phi[i], member[i], k))
        assert found.ratios[i].tolist() == pytest.approx(each)
        x, of = float(phi[i, k]), naive_shadows.others(phi, member, k, i)
        p, densities, spreads = naive_shadows.sigmoid(phi)[i, k], [], []
        inside = int(np.delete(member[i], k).sum())
        for side, n, common in (("in", inside, 1.3), ("out", 8 - inside, 0.9)):
            mean, freedom = of[f"mean_{side}"], n - 1 + 4
            variance = (of[f"scatter_{side}"] + 4 * common) / freedom
            spread = math.sqrt(variance * (1 + 1 / n))
            student = stats.t(freedom, mean, spread)
            # but for what depends on the freedom alone
            tall = student.logpdf(x) - student.logpdf(mean) - math.log(spread)
            densities.append((-((x - mean) ** 2) / (2 * common), tall))
            spreads.append(math.log(variance))
        assert row.tolist() == pytest.approx([
            x, math.log(p), of["mean_in"], of["mean_out"], x - of["mean_in"], x - of["mean_out"],
            *(each[5 * row + column] for row in (0, 2, 4) for column in (0, 3)),
            *(ours - theirs for ours, theirs in zip(*densities, strict=True)), *spreads,
        ])  # fmt: skip


def test_a_side_without_shadows_is_taken_from_the_other() -> None:
    phi, usual = np.array([[0.0, 1.0, 2.0, 4.0]]), features.PooledStatistics(0.7, 1.0, 1.0, FACTORS)
    for inside, mean_in, mean_out in ((False, 3.0 + 0.7, 3.0), (True, 3.0, 3.0 - 0.7)):
        block = shadow_signals.RecordBlock(slice(0, 1), (phi,), np.full((1, 4), inside))
        sums = features.leave_one_out_sums(block).column(1, slice(None))
        (row,) = features.leave_one_out_features(phi[:, 1] + 1, sums, usual).learned
        p = naive_shadows.sigmoid(np.array([0.0, 2.0, 4.0])).mean()
        other = max(p - 0.8, 0.0) / 0.2 if inside else 0.2 * p + 0.8  # the line, with a = .2
        said = (p + other) / 2
        assert row[2] == pytest.approx(mean_in - 1.0)  # the mean of 0, 2 and 4 is 2
        assert row[3] == pytest.approx(mean_out - 1.0)
        assert row[6] == pytest.approx(math.log(naive_shadows.sigmoid(np.array(2.0)) / said))


@pytest.mark.parametrize(("inside", "spreads"), [(1, (1.0, 2.0)), (3, (2.0, 1.0))])
def test_where_a_side_shows_no_spread_distances_are_left_as_they_are(
    inside: int, spreads: tuple[float, float]
) -> None:
    """One side has one shadow; the other three, whose squares of -2, 0 and 2 sum to 4 a freedom."""
    few, many = [5.0], [-math.sqrt(2.0), 0.0, math.sqrt(2.0)]
    phi = np.array([few + many if inside == 1 else many + few])
    block = shadow_signals.RecordBlock(slice(0, 1), (phi,), np.arange(4)[None] < inside)
    found = features.pooled_statistics([block])
    assert found[1:3] == pytest.approx(spreads)


def test_shadow_reads_the_class_and_not_the_record() -> None:
    """Two candidates of one class with one answer have one score, within a fold's model."""
    view = forests.leaky().view
    score = Shadow()(view, rng()).score
    again = Shadow()(with_shadows(view, reference_phi=view.shadows.reference_phi + 1), rng()).score  # type: ignore[union-attr]
    np.testing.assert_array_equal(score, again)
    phi = shadow_signals.scaled_logits(view).target[0]
    fold = shadow_signals.rank_records(shadow_signals.scaled_logits(view).blocks()) % 3
    for part in range(3):
        for label in range(forests.CLASSES):
            here = (fold == part) & (view.records.y == label)
            same, first = np.unique(phi[here], return_index=True)
            assert len(same) > 5
            # a rule of φ alone: interpolating it at the same φ gives the same score
            rule = dict(zip(same, score[here][first], strict=True))
            np.testing.assert_allclose(score[here], [rule[v] for v in phi[here]], atol=1e-12)


def test_shadow_reads_a_record_by_what_its_rows_never_taught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = forests.leaky().view
    taught: list[set[int]] = []

    def spy(teach: Any, pair: np.ndarray, y: np.ndarray) -> np.ndarray:
        taught.append(set(teach.place.tolist()))
        return np.full(len(y), float(len(taught) - 1))

    monkeypatch.setattr(shadow, "_predict_log_odds", spy)
    assert_read_by_others(view, Shadow(folds=4)(view, rng()).score, taught)


def assert_read_by_others(view: ModelView, score: np.ndarray, taught: list[set[int]]) -> None:
    """Each record is scored by the one part, of four, that its rows did not teach."""
    place = shadow_signals.rank_records(shadow_signals.scaled_logits(view).blocks())
    assert set(score) == {0, 1, 2, 3}
    for part, places in enumerate(taught):
        assert places == set(place) - set(place[score == part])


def test_the_stack_scores_a_record_by_what_its_rows_never_taught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = forests.leaky().view
    taught: list[set[int]] = []
    lessons: list[stack_rows.LeaveOneOutRows] = []
    find_rows = stack_rows.leave_one_out_rows

    def keep_rows(*of: Any) -> stack_rows.LeaveOneOutRows:
        lessons.append(find_rows(*of))
        return lessons[0]

    class Numbered:
        def log_odds(self, network: int, x: np.ndarray) -> np.ndarray:
            return np.full(len(x), network % 4)

    def spy(x: np.ndarray, y: np.ndarray, rows: list[np.ndarray], r: np.random.Generator) -> Any:
        taught.extend(set(lessons[0].place[own].tolist()) for own in rows)
        return Numbered()

    weighed: list[np.ndarray] = []

    def weigh(odds: np.ndarray, ratio: np.ndarray, member: np.ndarray) -> float:
        del ratio, member
        weighed.append(odds)
        return 1.0

    class AsTheyAre:
        @staticmethod
        def of(rows: np.ndarray) -> Any:
            del rows
            return np.asarray

    monkeypatch.setattr(stack_rows, "leave_one_out_rows", keep_rows)
    monkeypatch.setattr(networks, "train", spy)
    monkeypatch.setattr(stack, "networks_share", weigh)
    monkeypatch.setattr(stack, "Surprise", AsTheyAre)
    score = ShadowStack(folds=4)(view, rng()).score
    assert taught == taught[:4] * stack.NETWORKS
    assert_read_by_others(view, score, taught[:4])
    # the networks are weighed by rows that taught them neither
    assert weighed[0].tolist() == (lessons[0].place % 4).tolist()


def test_what_a_class_shares_in_one_model_is_taken_off_as_by_the_naive_twin() -> None:
    dice = np.random.default_rng(7)
    rows, y, place = dice.normal(size=(30, 16)), dice.integers(0, 4, 30), dice.permutation(30)
    found = features.add_class_shifts(rows, y, place)
    np.testing.assert_array_equal(found[:, :16], rows)
    for further, column in enumerate((0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13), start=16):
        said = rows[:, column].tolist()
        usual = sum(said) / 30
        for i in range(30):
            alike = [of - usual for of, label in zip(said, y, strict=True) if label == y[i]]
            assert found[i, further] == pytest.approx(said[i] - sum(alike) / (len(alike) + 10))
    turned = dice.permutation(30)
    again = features.add_class_shifts(rows[turned], y[turned], place[turned])
    np.testing.assert_array_equal(again, found[turned])


def test_models_that_know_more_of_a_class_than_others_are_compared_within_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each model says more of the classes of which it was trained on many records."""
    dice, classes, models = np.random.default_rng(8), 20, 5
    y = np.repeat(np.arange(classes), 30)
    member = dice.random((len(y), models)) < 0.5
    known = np.stack([np.bincount(y, of) for of in member.T], axis=1)
    phi = dice.normal(size=(len(y), 1)) + member + 0.3 * (known[y] - 15)
    phi += 0.5 * dice.normal(size=phi.shape)
    asked = Records(np.arange(len(y), dtype=float)[:, None], y)
    others = Shadows(phi[:, 1:], member[:, 1:], np.zeros((0, models - 1)))
    view = ModelView(turns.replay(phi[:, 0], y), asked, shadows=others)
    found = membership.auc(ShadowStack()(view, rng()).score, member[:, 0])
    none = np.zeros(len(features.COMPARED))
    monkeypatch.setattr(
        features,
        "add_class_shifts",
        lambda rows, *_: np.hstack([rows, np.broadcast_to(none, (len(rows), len(none)))]),
    )
    plain = membership.auc(ShadowStack()(view, rng()).score, member[:, 0])
    assert found.low > plain.value


def test_networks_count_as_by_a_logistic_regression_of_the_shadows_members() -> None:
    from scipy import optimize

    dice = np.random.default_rng(9)
    member = dice.random(900) < 0.5
    odds, ratio = member + dice.normal(size=900), member + 2 * dice.normal(size=900)
    said = np.column_stack([odds, ratio, np.ones(900)])

    def loss(weights: np.ndarray) -> float:
        against = np.where(member, -1, 1) * (said @ weights)
        return float(np.logaddexp(0, against).sum() + (weights**2).sum() / 2)

    best = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-6}).x
    share = mix.networks_share(odds, ratio, member)
    assert share == pytest.approx(best[0] / (best[0] + best[1]), abs=1e-4)
    assert 0.5 < share < 1
    assert mix.networks_share(-odds, ratio, member) == 0.0  # never against what networks say
    assert mix.networks_share(odds, -ratio, member) == 1.0
    assert mix.networks_share(-odds, -ratio, member) == 0.0


def test_surprise_is_minus_the_log_of_the_share_that_stands_higher() -> None:
    rows = np.random.default_rng(10).normal(size=400).round(1)
    scale = mix.Surprise.of(rows)
    for score in (rows.min(), 0.0, 0.3, rows.max()):
        higher = (rows > score).mean() + (rows == score).mean() / 2
        assert scale(np.array([score]))[0] == pytest.approx(-math.log(higher))
    half = scale(np.array([0.0, 0.05, 0.1]))
    assert half[1] == pytest.approx((half[0] + half[2]) / 2)
    beyond = scale(rows.max() + np.array([0.0, 1.0, 3.0]))
    assert beyond[1] > beyond[0]
    assert beyond[2] - beyond[0] == pytest.approx(3 * (beyond[1] - beyond[0]))
    np.testing.assert_array_equal(mix.Surprise.of(np.ones(9))(np.array([0.0, 1.0, 2.0])), np.log(2))


def test_offline_shadow_learns_from_the_pool() -> None:
    challenge = forests.leaky()
    with pytest.raises(NotApplicable, match="were not asked about these"):
        Shadow()(offline(challenge.view), rng())
    found = attempt.run_on_model(
        dataclasses.replace(challenge, view=offline(challenge.view, pool_of(1))), Shadow()
    ).finding
    assert found.metrics["auc"].value == golden(0.8469)


def two_sided(member: list[list[bool]]) -> ModelView:
    """The leaky world with shadows trained on these of its first candidates."""
    mask = np.array(member)
    view = forests.part(forests.leaky().view, np.arange(len(mask)))
    assert view.shadows is not None
    models = slice(mask.shape[1])
    reference = view.shadows.reference_phi[:, models]
    return with_shadows(view, phi=view.shadows.phi[:, models], member=mask, reference_phi=reference)


@pytest.mark.parametrize("member", [[[True], [False], [True]], [[True, True], [False, False]]])
def test_lira_does_not_apply_where_no_candidate_has_shadows_on_both_sides(
    member: list[list[bool]],
) -> None:
    view = two_sided(member)
    with pytest.raises(NotApplicable, match="shadows on both sides of a candidate"):
        LiRA()(view, rng())
    assert LiRA()(offline(view), rng()).score.shape == (len(member),)


def test_lira_applies_once_one_candidate_has_both_sides() -> None:
    score = LiRA()(two_sided([[True, False], [False, False], [True, True]]), rng()).score
    assert len(set(score.tolist())) == 3


def test_what_learns_from_shadows_is_fitted_to_an_equal_share_of_too_many_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = forests.leaky().view
    said, known = shadow_signals.scaled_logits(view), shadow_signals.attack_training_set(view)
    assert known is not None
    for module in (shadow, stack_rows):
        monkeypatch.setattr(module, "TRAINING_ROWS", 300)
    fitted = len(shadow._attack_rows(said, known, 5).member)
    usual = features.pooled_statistics(said.blocks())
    taught = stack_rows.leave_one_out_rows(said, known, usual, 5)
    for rows in (fitted, len(taught.member)):
        assert 150 < rows <= 300 + forests.SHADOWS


def test_a_class_has_a_model_of_its_own_from_100_of_either_kind_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted: list[int] = []
    fit = shadow._fit_classifier

    def spy(teach: shadow._AttackRows) -> Any:
        fitted.append(len(teach.y))
        return fit(teach)

    monkeypatch.setattr(shadow, "_fit_classifier", spy)
    y = np.repeat([0, 1], [200, 198])
    member = np.arange(398) % 2 == 0  # 100 and 99 of either kind
    teach = shadow._AttackRows(rng().normal(size=(398, 2)), member, y, np.arange(398))
    shadow._predict_log_odds(teach, teach.pair, y)
    assert fitted == [398, 200]


def beside_one_shadow(phi: np.ndarray, member: np.ndarray, y: np.ndarray) -> ModelView:
    """A target, φ of column 0, and one shadow, φ of column 1 and trained on these members."""
    asked = Records(np.arange(len(y), dtype=float)[:, None], y)
    shadow = Shadows(phi[:, 1:], member[:, None], np.zeros((0, 1)))
    return ModelView(turns.replay(phi[:, 0], y), asked, shadows=shadow)


def two_models(gain: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """φ, members and classes of two models, which say more by `gain` of their members."""
    dice = np.random.default_rng(3)
    member, y = dice.random((2_000, 2)) < 0.5, dice.integers(0, 3, 2_000)
    phi = dice.normal(size=(2_000, 1)) + gain * member + 0.5 * dice.normal(size=member.shape)
    return phi, member, y


def test_a_single_shadow_and_the_target_stand_in_each_others_place() -> None:
    phi, member, y = two_models(1.0)
    found = []
    for order in (phi, phi[:, ::-1]):
        view = beside_one_shadow(order, member[:, 1], y)
        signals = shadow_signals.scaled_logits(view)
        lessons, (turn,), _ = stack_rows.compare_pair(signals, y, 3)
        by_record = np.empty_like(lessons.features)
        by_record[np.argsort(shadow_signals.rank_records(signals.blocks()))] = lessons.features
        found.append((by_record, turn))
    # what the shadow teaches in one view is what is read of the target in the other
    for taught, read in ((found[0][0], found[1][1]), (found[1][0], found[0][1])):
        np.testing.assert_allclose(taught, read, rtol=0, atol=1e-9)


def test_a_single_shadow_teaches_by_whom_it_was_trained_on() -> None:
    phi, member, y = two_models(1.0)
    found = membership.auc(
        ShadowStack()(beside_one_shadow(phi, member[:, 1], y), rng()).score, member[:, 0]
    )
    loss = membership.auc(phi[:, 0], member[:, 0])
    assert found.low is not None
    assert loss.high is not None
    assert found.low > loss.high
    phi, member, y = two_models(0.0)
    none = membership.auc(
        ShadowStack()(beside_one_shadow(phi, member[:, 1], y), rng()).score, member[:, 0]
    )
    assert none.low is not None
    assert none.high is not None
    assert none.low < 0.5 < none.high


def test_the_stack_needs_two_offline_shadows() -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    one = with_shadows(
        view,
        phi=view.shadows.phi[:, :1],
        member=view.shadows.member[:, :1],
        reference_phi=view.shadows.reference_phi[:, :1],
    )
    assert len(ShadowStack()(one, rng()).score) == len(view.records)
    pool = pool_of(1)
    alone = PoolPredictions(pool.y, pool.phi[:, :1], pool.member[:, :1])
    with pytest.raises(NotApplicable, match="expected 2 or more offline shadows"):
        ShadowStack()(offline(one, alone), rng())


def test_what_one_shadow_varies_by_is_taken_from_all_records() -> None:
    found = shadow_statistics.shrink_variance(np.zeros(2), np.array([1, 0]), 3.0)
    np.testing.assert_allclose(found, 3.0)


def test_heavy_tails_of_residuals_are_as_heavy_as_they_are() -> None:
    truth = stats.t(5, scale=3)
    own = truth.rvs(2000, random_state=np.random.default_rng(0))
    log_p = rmia._fit_log_density(own, "student")
    far = np.array([0.0, 30.0])  # where a Gaussian has -50, and a Cauchy -5
    np.testing.assert_allclose(log_p(far), truth.logpdf(far) - truth.logpdf(0), atol=1.0)


def test_a_fold_of_one_record_is_enough() -> None:
    shadow_signals.check_enough_records(5, 5)
    with pytest.raises(NotApplicable, match="5 or more candidates"):
        shadow_signals.check_enough_records(4, 5)


@pytest.mark.parametrize(("shadows", "variance"), [(16, "record"), (15, "global")])
def test_sixteen_shadows_a_side_are_enough_for_a_variance_of_each_record(
    shadows: int, variance: Any
) -> None:
    view = two_sided([[False]] * 20)
    assert view.shadows is not None
    phi = np.random.default_rng(0).normal(size=(20, shadows))
    others = np.repeat(view.shadows.reference_phi, shadows, axis=1)
    view = with_shadows(view, phi=phi, member=np.zeros(phi.shape, bool), reference_phi=others)
    auto, own = (LiRA(variance=each)(view, rng()).score for each in ("auto", variance))
    np.testing.assert_array_equal(auto, own)


def test_offline_the_stack_learns_from_the_pool_as_the_attacker_can() -> None:
    """From whom its shadows were trained on, and never from whom the target was."""
    challenge = forests.leaky()
    with pytest.raises(NotApplicable, match="got neither"):
        ShadowStack()(offline(challenge.view), rng())
    view = offline(challenge.view, pool_of(1))
    score = ShadowStack()(view, rng()).score
    assert membership.auc(score, challenge.truth.member).value == golden(0.9243)
    found = membership.auc(
        ShadowStack()(offline(challenge.view, pool_of(2)), rng()).score,
        score > np.median(score),
    )
    assert found.low > 0.9  # another pool teaches nearly the same


def test_offline_the_target_stands_before_a_random_half_of_the_shadows() -> None:
    shadows = np.arange(9) != 3
    half = stack_rows._random_half(shadows, 4_000, rng())
    assert not half[:, 3].any()
    assert half.any(axis=1).all()
    counts = half.sum(axis=1)
    assert abs(counts.mean() - 4.0) < 5 * math.sqrt(8 / 4 / 4_000)  # binomial: 8 coins
    lone = stack_rows._random_half(np.arange(2) == 1, 50, rng())
    np.testing.assert_array_equal(lone, np.tile([False, True], (50, 1)))


def test_the_networks_that_learn_side_by_side_have_the_gradient_of_their_loss() -> None:
    dice = np.random.default_rng(4)
    x, y = dice.normal(size=(3, 20, 5)), dice.random((3, 20)) < 0.5
    flat = dice.normal(size=networks._size(3, 5))
    weights = networks._Layers.of(flat, 3, 5)
    slopes = np.empty_like(flat)
    networks._differentiate(weights, x, y, networks._Layers.of(slopes, 3, 5))

    def loss() -> float:
        odds = networks._forward(weights, x)[-1][..., 0]
        return float(np.logaddexp(0, np.where(y, -odds, odds)).mean(axis=1).sum())

    for k in dice.choice(len(flat), 40, replace=False):
        at = flat[k]
        ends = []
        for step in (1e-6, -1e-6):
            flat[k] = at + step
            ends.append(loss())
        flat[k] = at
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slopes[k], abs=1e-6)


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("proxy", ["class", "global"])
def test_proxies_are_compared_as_by_the_naive_twin(*, online: bool, proxy: Any) -> None:
    view = forests.two_ways(forests.leaky(), 0).view
    assert view.shadows is not None
    varied = [
        not mask.all()
        and all(way[i][~mask].std() > 0 for way in (view.shadows.phi, *view.shadows.augmented_phi))
        for i, mask in enumerate(view.shadows.member)
    ]
    view = forests.part(view, np.flatnonzero(varied))
    assert view.shadows is not None
    if online:
        known: PoolPredictions | Shadows = view.shadows
    else:
        other = forests.two_ways(forests.leaky(1), 0).view.shadows
        assert other is not None
        known = PoolPredictions(
            forests.leaky(1).view.records.y, other.phi, other.member, other.augmented_phi
        )
        view = offline(view, known)
    y = view.records.y if online else known.y  # type: ignore[union-attr]
    naive = naive_shadows.pmia(view, known, y, proxy)
    np.testing.assert_allclose(PMIA(proxy)(view, rng()).score, naive, atol=1e-8)


def test_a_record_that_shows_no_spread_is_compared_as_its_class() -> None:
    phi = np.array([[1.0, 2.0, 5.0, 7.0], [3.0, 3.0, 4.0, 6.0], [0.0, 8.0, 1.0, 2.0]])
    member = np.array([[0, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 1]], bool)
    member[1, 3] = True
    shown = two_sided([[False]] * 3)
    view = with_shadows(shown, phi=phi, member=member, reference_phi=np.zeros((1, 4)))
    view = dataclasses.replace(view, records=dataclasses.replace(view.records, y=np.zeros(3, int)))
    said = shadow_signals.scaled_logits(view)
    found = pmia._fit_each_record(
        said,
        0,
        shadow_signals.AttackTrainingSet(view.shadows, view.records.y),  # type: ignore[arg-type]
    )
    usual = np.array([1.0, 2.0, 3.0, 3.0])  # all that was said without the record
    assert found.median.tolist() == [1.5, np.median(usual), np.median(usual)]
    np.testing.assert_allclose(found.deviation, [0.5, usual.std(), usual.std()])


def test_proxies_are_what_shadows_were_trained_on() -> None:
    view = forests.leaky().view
    with pytest.raises(NotApplicable, match="asked about others alone"):
        PMIA()(offline(view), rng())
    assert view.shadows is not None
    everyone = with_shadows(view, member=np.ones_like(view.shadows.member))
    with pytest.raises(NotApplicable, match="were not trained on, got none"):
        PMIA()(everyone, rng())
    rare = pmia._fit_by_class(np.array([1.0, 2.0, 9.0]), np.array([0, 0, 1]), np.array([0, 1, 2]))
    assert rare.median.tolist() == [1.5, 2.0, 2.0]  # one value, or none, shows no spread


def test_each_network_learns_from_its_own_rows() -> None:
    dice = np.random.default_rng(5)
    x = dice.normal(size=(600, 2))
    y = (x[:, 0] > 0) ^ (np.arange(600) >= 300)  # the second half says the opposite
    trained = networks.train(x, y, [np.arange(300), np.arange(300, 600)], rng())
    for network, sign in ((0, 1), (1, -1)):
        odds = sign * trained.log_odds(network, x)
        assert ((odds > 0) == (x[:, 0] > 0)).mean() > 0.95


def test_shadow_stack_refuses_halves_that_complete_each_other() -> None:
    view = forests.leaky().view
    assert view.shadows is not None
    half = view.shadows.member[:, :2]
    paired = np.hstack([half, ~half])
    phi, others = (each[:, :4] for each in (view.shadows.phi, view.shadows.reference_phi))
    with pytest.raises(NotApplicable, match="each record in 2 of 4"):
        ShadowStack()(with_shadows(view, phi=phi, member=paired, reference_phi=others), rng())


@pytest.mark.parametrize("online", [True, False])
def test_shadow_gap_is_the_log_ratio_of_being_right_by_its_naive_twin(*, online: bool) -> None:
    """The shares of shadows that are right keep half a model away from none and all."""
    view = forests.leaky().view
    assert view.shadows is not None
    phi = view.shadows.phi.copy()
    phi[:20], phi[20:40] = 40.0, -40.0  # always right, and never
    view = with_shadows(view, phi=phi)
    view = view if online else offline(view)
    assert view.shadows is not None
    answers, y = view.target.predict(view.records.x), view.records.y
    least = 1 / (forests.SHADOWS + 2)
    both = view.shadows.member.any(axis=1) & ~view.shadows.member.all(axis=1)
    kept = np.flatnonzero(both if online else ~both)
    assert (kept < 40).sum() > 20
    expected = []
    for k in kept:
        right, mask = 1 / (1 + np.exp(-phi[k])), view.shadows.member[k]
        outside = float(np.clip(right[~mask].mean(), least, 1 - least))
        # offline, a member is wrong half as often
        inside = 1 - (1 - outside) / 2
        if online:
            inside = float(np.clip(right[mask].mean(), least, 1 - least))
        is_right = answers[k].argmax() == y[k]
        expected.append(math.log(inside / outside if is_right else (1 - inside) / (1 - outside)))
    found = ShadowGap()(view, rng()).score
    np.testing.assert_allclose(found[kept], expected, rtol=1e-9, atol=1e-12)
