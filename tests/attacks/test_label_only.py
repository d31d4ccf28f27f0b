"""Attacks that read labels alone: against closed forms, and never a question too many."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import spearmanr

from divulge.attacks import catalog
from divulge.attacks.membership.boundary import bits
from divulge.attacks.membership.boundary.attack import nearest_of_another_label
from divulge.attacks.membership.boundary.search import Search
from divulge.attacks.membership.oslo.surrogates import train_surrogates
from divulge.attacks.shared.perturbation import space_of
from divulge.core import ModelView, Need, Records, Shadows
from divulge.data.records import as_records
from divulge.errors import NotApplicable, SpecError

RNG = np.random.default_rng(0)
NORMAL = np.array([3.0, -2.0, 1.0, 0.5, 0.0, 0.0])
NUMBERS = RNG.normal(size=(120, 6)) * [1, 2, 3, 4, 5, 6]
BITS = (RNG.random((120, 24)) < 0.5).astype(np.float32)
IMAGES = RNG.integers(0, 256, size=(60, 1, 6, 6)).astype(np.uint8)
NAMES = ("oslo", "agreement", "boundary")


class Linear:
    """Class 1 above a plane; keeps what it was asked."""

    offers = Need.HARD_LABELS | Need.FEATURES

    def __init__(self, weight: np.ndarray, bias: float = 0.0) -> None:
        self.weight, self.bias = weight, bias
        self.asked: list[np.ndarray] = []

    def predict(self, x: np.ndarray) -> np.ndarray:
        self.asked.append(x)
        above = x.reshape(len(x), -1).astype(np.float64) @ self.weight > self.bias
        return np.asarray(np.eye(2)[above.astype(int)])

    def label(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(Linear(self.weight, self.bias).predict(x).argmax(axis=1))


class Constant:
    """Says the same of every record."""

    offers = Need.HARD_LABELS | Need.FEATURES

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.tile([0.0, 1.0], (len(x), 1))


def view_of(target: Linear, x: np.ndarray) -> ModelView:
    records = Records(x, target.label(x))
    return ModelView(target, records, records)


def score(name: str, view: ModelView, **settings: Any) -> np.ndarray:
    return np.asarray(catalog.attack(name, **settings)(view, np.random.default_rng(0)).score)


def test_the_distance_to_a_plane_is_found() -> None:
    view = view_of(Linear(NORMAL), NUMBERS)
    spread = NUMBERS.std(axis=0)
    exact = np.abs(NUMBERS @ NORMAL) / np.linalg.norm(NORMAL * spread)
    ratios = []
    for questions in (10, 100, 400):
        found = score("boundary", view, questions=questions)
        assert (found > exact).all()  # of a point beyond the plane
        ratios.append(np.median(found / exact))
    assert ratios[0] > ratios[1] > ratios[2]
    assert ratios[2] < 1.1


def test_the_fewest_flips_are_found() -> None:
    """The label is a vote of 24 bits, of which the first four count thrice."""
    weight = np.where(np.arange(24) < 4, 3.0, 1.0)
    target = Linear(weight, bias=16.5)
    view = view_of(target, BITS)
    surplus = BITS @ weight - 16.5

    def fewest(row: np.ndarray, above: float) -> int:
        useful = np.sort(weight[row == (above > 0)])[::-1].cumsum()
        return int((useful < abs(above)).sum()) + 1

    exact = np.array([fewest(row, above) for row, above in zip(BITS, surplus, strict=True)])
    few, many = (score("boundary", view, questions=q) for q in (6, 200))
    assert (few >= exact).all()
    assert (many >= exact).all()
    assert many.mean() < few.mean()
    assert (many - exact).mean() < 1.0


@pytest.mark.parametrize("questions", [1, 10])
def test_agreement_rises_with_the_distance(questions: int) -> None:
    view = view_of(Linear(NORMAL), NUMBERS)
    far = np.abs(NUMBERS @ NORMAL)
    found = score("agreement", view, questions=questions, noise=2.0)
    assert set(np.unique(found * (questions + 1)).round(9)) <= set(range(questions + 2))
    assert spearmanr(found, far).statistic > (0.3 if questions == 1 else 0.7)


def test_noise_grows_from_question_to_question_up_to_its_size() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2000))
    target = Linear(np.ones(2000))
    score("agreement", view_of(target, x), questions=4, noise=0.5)
    own, *asked = target.asked
    spread = space_of(x).spread
    # every record gets the same noise; the few that it takes out of the range are clipped
    sizes = [np.std(np.median(one - own, axis=0) / spread) for one in asked]
    # of 2,000 normal numbers each: a standard deviation errs by a 63rd of itself
    np.testing.assert_allclose(sizes, 0.5 * np.arange(1, 5) / 4, rtol=4 / 63)


def test_images_are_shifted_the_nearest_first() -> None:
    target = Linear(np.ones(36))
    score("agreement", view_of(target, IMAGES), under="shifts", questions=6)
    own, *shifted = target.asked
    np.testing.assert_array_equal(own, IMAGES)
    mirrored = [way for way in shifted if (way == IMAGES[..., ::-1]).all()]
    assert len(mirrored) == 1
    down = np.concatenate([IMAGES[..., :1, :], IMAGES[..., :-1, :]], axis=-2)
    assert any((way == down).all() for way in shifted)
    with pytest.raises(NotApplicable, match="needs images to shift"):
        score("agreement", view_of(Linear(NORMAL), NUMBERS), under="shifts")
    with pytest.raises(NotApplicable, match="241 shifts of 6 x 6 are possible"):
        score("agreement", view_of(target, IMAGES), under="shifts", questions=500)


@pytest.mark.parametrize("x", [NUMBERS, BITS, BITS.astype(bool), IMAGES], ids=lambda x: x.dtype.str)
@pytest.mark.parametrize("name", NAMES)
def test_questions_look_like_records_and_are_no_more_than_said(name: str, x: np.ndarray) -> None:
    weight = RNG.normal(size=x[0].size)
    allowed: list[tuple[dict[str, int], int]] = [({"sources": 1, "validators": 1}, 1)]
    if name != "oslo":
        allowed = [({"questions": questions}, questions) for questions in (1, 6, 60)]
    for settings, most in allowed:
        target = Linear(weight, float(np.median(x.reshape(len(x), -1) @ weight)))
        score(name, view_of(target, x), **settings)
        own, *further = [asked for asked in target.asked if asked is not x]
        further = [asked for asked in (own, *further) if not np.array_equal(asked, x)]
        assert 0 < sum(map(len, further)) <= most * len(x)
        for asked in further:
            assert asked.dtype == x.dtype
            assert asked.shape[1:] == x.shape[1:]
            assert asked.min() >= x.min()
            assert asked.max() <= x.max()
            if x is BITS:
                assert set(np.unique(asked)) <= {0.0, 1.0}


def test_oslo_changes_no_more_bits_than_its_share() -> None:
    weight = np.random.default_rng(1).normal(size=24)
    target = Linear(weight, float(np.median(BITS @ weight)))
    score("oslo", view_of(target, BITS), sources=1, validators=1, flips=0.1)
    changed = [(asked[:, None] != BITS).sum(axis=2).min(axis=1) for asked in target.asked]
    assert np.max(changed) == 3  # a tenth of 24, rounded up


def test_a_search_starts_from_the_nearest_record_of_another_label() -> None:
    rng = np.random.default_rng(1)
    x, label, y = rng.normal(size=(50, 3)), rng.integers(0, 3, 50), rng.integers(0, 4, 50)
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    distance[label == y[:, None]] = np.inf
    found = nearest_of_another_label(x, label, y)
    np.testing.assert_array_equal(found, distance.argmin(axis=1))
    assert (nearest_of_another_label(x, np.ones(50, int), np.ones(50, int)) == -1).all()


def test_the_weight_of_a_flip_is_how_much_oftener_the_label_is_another_one_with_it() -> None:
    only_first, x = Linear(1.0 * (np.arange(24) == 0), 0.5), np.zeros((5, 24))
    search = Search(
        only_first, space_of(BITS), x, only_first.label(x), 100, np.random.default_rng(1)
    )
    weight = bits._weigh(search, np.ones(x.shape, bool), 40)
    assert (weight[:, 0] == 1).all()  # the label is another one with it, and never without
    assert (np.abs(weight[:, 1:]) < 0.7).all()


def test_a_wrong_answer_is_no_distance_and_one_class_alone_is_far() -> None:
    view = view_of(Linear(NORMAL), NUMBERS)
    wrong = Records(NUMBERS, 1 - view.records.y)
    assert not score("boundary", ModelView(view.target, wrong)).any()
    everything = view_of(Linear(NORMAL, bias=-1e9), NUMBERS)
    found = score("boundary", everything)
    assert np.ptp(found) == 0
    assert found[0] > 1


def test_records_that_are_all_the_same_cannot_be_perturbed() -> None:
    with pytest.raises(NotApplicable, match="candidates that differ"):
        space_of(np.ones((5, 3)))


@pytest.mark.parametrize("name", NAMES)
def test_texts_cannot_be_perturbed(name: str) -> None:
    texts = as_records(([f"text {i}" for i in range(60)], np.arange(60) % 2), "texts")
    with pytest.raises(NotApplicable, match="candidates that are numbers"):
        score(name, ModelView(Constant(), texts, texts))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_of_a_surrogate_is_that_of_its_loss(classes: int) -> None:
    x = RNG.normal(size=(90, 4))
    y = np.digitize(x[:, 0], [-0.5, 0.5][: classes - 1])
    (one,) = train_surrogates(x, y, classes + 1, 1, np.random.default_rng(0))
    rows = np.arange(len(y))
    p = one.predict(x)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p[:, classes] == 0).all()  # the class that it was shown no record of
    assert (p.argmax(axis=1) == y).mean() > 0.8
    gradient = one.gradient(x, y)
    for feature in range(4):
        step = 1e-6 * (np.arange(4) == feature)
        loss = [-np.log(one.predict(x + sign * step)[rows, y]) for sign in (1, -1)]
        slow = (loss[0] - loss[1]) / 2e-6
        close = np.isclose(slow, gradient[:, feature], atol=1e-4)
        assert close.mean() > 0.98  # but where a unit has its kink between the two points


def test_oslo_needs_records_to_learn_from() -> None:
    view = view_of(Linear(NORMAL), NUMBERS)
    few = ModelView(view.target, view.records, view.records.take(np.arange(49)))
    with pytest.raises(NotApplicable, match=r"needs 50 reference records .* got 49"):
        score("oslo", few)


def test_a_right_answer_counts_by_how_rare_it_is_among_shadows() -> None:
    phi = RNG.normal(size=(120, 6)) * 4
    member = RNG.random((120, 6)) < 0.5
    member[0], member[1] = True, False
    target = Linear(NORMAL)
    y = np.where(RNG.random(120) < 0.3, 1 - target.label(NUMBERS), target.label(NUMBERS))
    shadows = Shadows(phi, member, np.zeros((0, 6)))
    found = score("shadow-gap", ModelView(target, Records(NUMBERS, y), shadows=shadows))
    p = expit(phi)
    for i in range(2, 120):
        if member[i].all() or not member[i].any():
            continue
        inside, outside = (
            np.clip(p[i][side].mean(), 1 / 8, 7 / 8) for side in (member[i], ~member[i])
        )
        right = y[i] == target.label(NUMBERS[i : i + 1])[0]
        odds = inside / outside if right else (1 - inside) / (1 - outside)
        np.testing.assert_allclose(found[i], np.log(odds))
    assert np.isfinite(found).all()


def test_with_offline_shadows_no_wrong_answer_stands_above_a_right_one() -> None:
    target = Linear(NORMAL)
    right = RNG.random(120) < 0.7
    y = np.where(right, target.label(NUMBERS), 1 - target.label(NUMBERS))
    phi = RNG.normal(size=(120, 4)) * 4
    shadows = Shadows(phi, np.zeros((120, 4), bool), np.zeros((0, 4)))
    found = score("shadow-gap", ModelView(target, Records(NUMBERS, y), shadows=shadows))
    assert found[right].min() > 0 > found[~right].max()
    assert len(np.unique(found[~right])) == 1  # whatever rounding does: ties are no order
    hard = np.argsort(expit(phi).mean(axis=1)[right])
    assert (np.diff(found[right][hard]) <= 1e-12).all()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("agreement", {"noise": 0.0}),
        ("agreement", {"flips": 1.5}),
        ("agreement", {"questions": 0}),
        ("agreement", {"under": "rain"}),
        ("boundary", {"questions": 0}),
        ("oslo", {"threshold": 1.0}),
        ("oslo", {"flips": 0.0}),
        ("oslo", {"noise": -1.0}),
        ("oslo", {"sources": 0}),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="expected"):
        catalog.attack(name, **settings)


def test_oslo_moves_numbers_by_no_more_than_its_noise() -> None:
    target = Linear(NORMAL)
    score("oslo", view_of(target, NUMBERS), sources=1, validators=1, noise=0.1, steps=4)
    spread = space_of(NUMBERS).spread
    moved = [np.abs(asked[:, None] - NUMBERS) / spread for asked in target.asked]
    # every step is a quarter of the noise; the record that was asked about is the nearest
    assert 0 < max(one.max(axis=2).min(axis=1).max() for one in moved) <= 0.1 + 1e-9


@pytest.mark.parametrize(("height", "width", "ways"), [(2, 2, 18), (2, 3, 18), (3, 3, 50)])
def test_images_are_moved_by_the_nearest_pixels_first_as_far_as_there_are_any(
    height: int, width: int, ways: int
) -> None:
    """By less than the shorter side in either direction, each way also mirrored."""
    images = np.arange(2.0 * height * width).reshape(2, 1, height, width)
    target = Linear(np.ones(height * width), 1.0)
    score("agreement", view_of(target, images), under="shifts", questions=ways - 1)
    assert len(target.asked) == ways
    np.testing.assert_array_equal(target.asked[0], images)
    np.testing.assert_array_equal(target.asked[1], padded(images, -1, 0, mirrored=False))
    np.testing.assert_array_equal(target.asked[2], padded(images, 0, -1, mirrored=False))
    np.testing.assert_array_equal(target.asked[3], padded(images, 0, 0, mirrored=True))
    np.testing.assert_array_equal(target.asked[4], padded(images, 0, 1, mirrored=False))
    with pytest.raises(
        NotApplicable, match=f"{ways - 1} shifts of {height} x {width} are possible"
    ):
        score("agreement", view_of(target, images), under="shifts", questions=ways)


def padded(images: np.ndarray, down: int, right: int, *, mirrored: bool) -> np.ndarray:
    """Images moved by at most one pixel; the edge is repeated."""
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    height, width = images.shape[-2:]
    moved = wide[..., 1 - down : 1 - down + height, 1 - right : 1 - right + width]
    return moved[..., ::-1] if mirrored else moved
