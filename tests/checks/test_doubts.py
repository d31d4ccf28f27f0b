"""Rows, answers and labels that contradict each other are doubted, and coarse models are not."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import special, stats
from sklearn.base import ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from divulge.checks import answers as of_answers
from divulge.checks import duplicates, fit_of_labels, repeats
from divulge.checks.question import SeenAnswers
from divulge.core import Check, Records, Verdict
from divulge.metrics import membership

MODELS: dict[str, Callable[[int], ClassifierMixin]] = {
    "tree": lambda seed: DecisionTreeClassifier(min_samples_leaf=1 + seed % 5, random_state=seed),
    "neighbours": lambda seed: KNeighborsClassifier((1, 3, 5)[seed % 3]),
    "forest": lambda seed: RandomForestClassifier((5, 20)[seed % 2], random_state=seed),
    "linear": lambda seed: LogisticRegression(C=(0.01, 1)[seed % 2]),
    "bayes": lambda _: GaussianNB(),
}
ROUNDED = (None, 1, 3)


def confident(
    truth: np.ndarray, classes: int = 10, right: float = 0.9, seed: int = 0
) -> np.ndarray:
    """Answers of a model that is as sure as it is right."""
    rng = np.random.default_rng(seed)
    wrong = (truth + rng.integers(1, classes, len(truth))) % classes
    said = np.where(rng.random(len(truth)) < right, truth, wrong)
    return special.softmax(6 * np.eye(classes)[said] + rng.normal(size=(len(truth), classes)), 1)


def labels(classes: int = 10, records: int = 400) -> np.ndarray:
    return np.random.default_rng(1).integers(0, classes, records)


def fits(answers: np.ndarray, label: np.ndarray, *, soft: bool = True) -> Check | None:
    return fit_of_labels.check_labels(SeenAnswers.of(answers), label, soft=soft)


def warned(check: Check | None) -> str:
    assert check is not None
    assert check.verdict is Verdict.WARNING
    return check.text


def repeated(answers: np.ndarray, label: np.ndarray, member: np.ndarray) -> Check | None:
    return repeats.check_repeats(None, SeenAnswers.of(answers), label, member)


@pytest.mark.parametrize("seed", range(12))
def test_models_that_are_right_are_not_doubted(seed: int) -> None:
    classes = (2, 3, 10)[seed % 3]
    x, y = make_classification(
        240, 12, n_informative=6, n_classes=classes, n_clusters_per_class=1, random_state=seed,
        weights=[0.9, *[0.1 / (classes - 1)] * (classes - 1)] if seed % 4 == 3 else None,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    y = rng.permutation(y) if seed % 4 == 2 else y
    x = np.round(x) if seed % 4 == 1 else x
    member = rng.permutation(240) < 120
    for make in MODELS.values():
        model = make(seed).fit(x[member], y[member])
        exact = model.predict_proba(x)
        if exact.shape[1] <= y.max():  # a rare class is missing among the members
            continue
        for digits in ROUNDED:
            answers = exact if digits is None else np.round(exact, digits)
            answers = answers / answers.sum(axis=1, keepdims=True)
            assert repeated(answers, y, member) is None
            found = fits(answers[member], y[member])
            assert found is None or found.verdict is Verdict.PASS


def test_labels_that_are_shifted_are_named() -> None:
    truth = labels()
    answers = confident(truth)
    assert fits(answers, truth) is None
    text = warned(fits(answers, (truth - 1) % 10))
    assert "if label k - 1 means class k: labels look shifted by 1" in text
    assert text.startswith("The accuracy on members is 0.8 % (0.2–2.2), but 91 % (88–94) if")  # noqa: RUF001
    late = truth < 9
    assert "label k + 1 means class k" in warned(fits(answers[late], truth[late] + 1))


def test_columns_in_another_order_and_exchanged_classes_are_named() -> None:
    truth = labels()
    texts = sorted(range(12), key=str)  # 0, 1, 10, 11, 2, ...
    wide = labels(12)
    text = warned(fits(confident(wide, 12)[:, texts], wide))
    assert "classes look to be in another order" in text
    two = labels(2)
    text = warned(fits(confident(two, 2, 0.97), 1 - two))
    assert "if classes 0 and 1 are exchanged" in text
    # one pair of ten classes leaves most labels right
    exchanged = np.array([0, 1, 2, 5, 4, 3, 6, 7, 8, 9])[truth]
    assert fits(confident(truth), exchanged) is None


def test_a_model_that_is_sure_and_wrong_about_its_members_is_doubted() -> None:
    truth = labels()
    text = warned(fits(confident(truth), np.random.default_rng(2).permutation(truth)))
    assert "no better than guessing (" in text
    assert "a probability of 0.9" in text
    # a hidden layer read as logits: not very sure, but far below guessing
    rng = np.random.default_rng(3)
    wrong = (truth + rng.integers(1, 10, 400)) % 10
    unit = np.where(rng.random(400) < 0.4, rng.integers(10, 16, 400), wrong)
    hidden = special.softmax(2 * np.eye(16)[unit], 1)
    assert "below guessing (6.25 %)" in warned(fits(hidden, truth))


def test_a_model_that_is_unsure_has_learned_nothing() -> None:
    truth = labels()
    unsure = special.softmax(np.random.default_rng(2).normal(0, 0.3, (400, 10)), 1)
    found = fits(unsure, truth)
    assert found is not None
    assert found.verdict is Verdict.PASS
    # labels alone say nothing of how sure the model is
    alone = np.eye(10)[np.random.default_rng(2).integers(0, 10, 400)]
    found = fits(alone, truth, soft=False)
    assert found is not None
    assert found.verdict is Verdict.PASS


def test_a_rare_class_that_is_never_answered_contradicts_nothing() -> None:
    truth = (np.arange(400) % 20 == 0).astype(int)
    answers = np.tile([0.999, 0.001], (400, 1))
    assert fits(answers, truth) is None


def test_other_names_of_classes_are_not_found_by_chance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        records, classes = int(rng.integers(12, 200)), int(rng.integers(2, 11))
        truth = rng.integers(0, classes, records)
        found = fits(np.eye(classes)[rng.integers(0, classes, records)], truth, soft=False)
        assert found is None or found.verdict is Verdict.PASS


def test_equal_answers_are_seen_but_not_confident_ones() -> None:
    truth = labels(3, 60)
    same = np.tile([0.2, 0.3, 0.5], (60, 1))
    noise = 1 + 1e-7 * np.random.default_rng(0).normal(size=(60, 1))
    text = warned(of_answers.check_equal_answers(SeenAnswers.of(same * noise), truth))
    assert "one and the same answer to all 60 records" in text
    sure = special.softmax(np.random.default_rng(0).normal([30, 0, 0], 1, (60, 3)), 1)
    assert of_answers.check_equal_answers(SeenAnswers.of(sure), truth) is None
    values = np.random.default_rng(0).normal(1e6, 1, 60)
    assert of_answers.check_equal_answers(SeenAnswers.of(values[:, None]), values) is None
    same = np.full((60, 1), 3.0)
    assert "the same number" in warned(of_answers.check_equal_answers(SeenAnswers.of(same), values))


def test_most_answers_of_0_and_1_are_no_probabilities() -> None:
    answers = np.eye(3)[labels(3, 100)]
    answers[:40] = [0.2, 0.3, 0.5]
    text = warned(of_answers.check_certain_answers(SeenAnswers.of(answers)))
    assert text.startswith("60 % (50–70) of the answers are exactly 0 and 1")  # noqa: RUF001
    answers[:50] = [0.2, 0.3, 0.5]
    assert of_answers.check_certain_answers(SeenAnswers.of(answers)) is None
    saturated = np.tile([1.0, 1e-30, 1e-40], (100, 1))  # as softmax in float32 gives them
    assert of_answers.check_certain_answers(SeenAnswers.of(saturated)) is None


def rows_again(times: Sequence[int]) -> Check | None:
    """Full-precision answers of 300 records whose rows stand so often, in turn."""
    truth = labels(10, 300)
    rows = np.repeat(np.arange(300), np.resize(times, 300))
    return repeated(confident(truth)[rows], truth[rows], (np.arange(300) < 150)[rows])


def test_rows_that_repeat_are_seen() -> None:
    assert rows_again([1]) is None
    assert "every row of the non-members stands there twice" in warned(rows_again([2]))
    assert "factor of about 1.7" in warned(rows_again([3]))
    text = warned(rows_again([1, 2, 3]))
    assert "of 300 members and 200 of 300 non-members repeat another row of their set" not in text
    assert "150 of 300 members and 150 of 300 non-members repeat another row" in text
    assert rows_again([1, 1, 1, 1, 1, 1, 1, 1, 1, 2]) is None  # a few, as in any data


def test_even_coarse_rows_do_not_all_stand_twice_by_chance() -> None:
    truth = labels(10, 400)
    answers = np.eye(10)[confident(truth).argmax(1)]
    member = np.arange(400) < 200
    assert repeated(answers, truth, member) is None
    twice = np.repeat(np.arange(400), 2)
    assert "twice" in warned(repeated(answers[twice], truth[twice], member[twice]))


def test_votes_and_rounding_are_coarse() -> None:
    rng = np.random.default_rng(0)
    votes = rng.multinomial(137, [0.5, 0.3, 0.2], 50) / 137
    rounded = np.round(rng.dirichlet([1, 1, 1], 50), 4)
    for coarse in (votes, votes.astype(np.float32).astype(float), rounded):
        assert repeats.is_coarse(coarse / coarse.sum(axis=1, keepdims=True))
    for classes in (2, 3, 10):
        assert not repeats.is_coarse(rng.dirichlet(np.ones(classes), 200))
    assert repeats.is_coarse(np.array([[1201, 798]]) / 1999)  # a prime: on no other grid
    assert not repeats.is_coarse(np.array([[1201, 802]]) / 2003)
    assert repeats.is_coarse(np.round(rng.normal(0, 100, (50, 1)), 2))
    assert not repeats.is_coarse(rng.normal(0, 100, (50, 1)))


def test_intervals_are_too_narrow_from_the_largest_effect_on() -> None:
    """At the largest effect that passes they cover 90 %, as the constant promises."""
    rng = np.random.default_rng(0)
    times = np.where(np.arange(200) < 59, 2, 1)  # 259 rows of 200 records: an effect of 1.46
    rows = np.repeat(np.arange(200), times)
    effect = duplicates.count_repeats(rows, rows).effect
    assert effect == pytest.approx(1.46, abs=0.01)
    member = np.arange(2 * len(rows)) < len(rows)
    runs = 1000
    covered = 0
    for _ in range(runs):
        score = np.concatenate([rng.normal(size=200)[rows] for _ in range(2)])
        covered += 0.5 in membership.auc(score, member)
    assert 0.87 * runs < covered < 0.92 * runs


def test_features_that_repeat_are_counted_without_what_is_set_aside() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    y = np.zeros(200, int)
    twice = np.repeat(np.arange(100), 2)
    members, others = Records(x[twice], y), Records(x[100:], y[100:])
    left = duplicates.find_copies(members, others, None).copies.left
    assert (left.members, left.nonmembers) == (100, 0)
    assert left.effect == pytest.approx((2 / 200 + 1 / 100) / (1 / 200 + 1 / 100))
    both = duplicates.find_copies(members, Records(x[100 + twice], y), None).copies.left
    assert both.effect == pytest.approx(2)
    member = np.arange(400) < 200
    answers = np.random.default_rng(1).dirichlet([1, 1], 400)
    text = warned(repeats.check_repeats(both, SeenAnswers.of(answers), np.zeros(400, int), member))
    assert text.startswith("100 of 200 members and 100 of 200 non-members repeat another row")


@pytest.mark.parametrize(
    ("model", "overlap"),
    [("linear", 1.0), ("linear", 0.5), ("linear", 0.2), ("bayes", 0.5), ("forest", 0.9)],
)
def test_members_among_the_nonmembers_are_seen_in_answers_alone(model: str, overlap: float) -> None:
    x, y = make_classification(400, 12, n_informative=6, n_classes=3, flip_y=0.3, random_state=2)
    answers = MODELS[model](3).fit(x[:200], y[:200]).predict_proba(x)
    member, again = np.arange(400) < 200, int(200 * overlap)
    assert repeated(answers, y, member) is None
    rows = np.r_[:200, :again, 200 : 400 - again]
    text = warned(repeated(answers[rows], y[rows], member))
    assert "as often among members as among non-members" in text


def test_classes_that_stand_as_often_in_both_sets_are_not_records_in_two_sets() -> None:
    """Each of 40 classes stands ten times in either set, and all but ten answers are right."""
    label = np.tile(np.repeat(np.arange(40), 10), 2)
    answered = np.where(np.arange(800) % 83 == 0, (label + 1) % 40, label)
    assert repeated(np.eye(40)[answered], label, np.arange(800) < 400) is None


def test_answers_that_pair_up_by_chance_are_not_called_records_in_two_sets() -> None:
    for seed in range(300):
        rng = np.random.default_rng(seed)
        code = rng.integers(0, (50, 100, 300)[seed % 3], 200)
        member = np.arange(200) < (100, 40)[seed % 2]
        balanced, even = repeats.count_balanced(code, member)
        assert stats.binom.sf(balanced - 1, even, 0.5) > repeats.BY_CHANCE


def rows_of(cells: Sequence[int], classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """What is answered, and labels: so many of each answer are labelled k, k + 1, and so on.

    All classes are as frequent, so guessing is right once in ``classes``.
    """
    pairs = [
        (k, (k + step) % classes)
        for k in range(classes)
        for step, many in enumerate(cells)
        for _ in range(many)
    ]
    answered, label = np.array(pairs).T
    return answered, label


def as_sure(answered: np.ndarray, sure: float) -> np.ndarray:
    """Answers whose largest probability is this."""
    return np.where(np.eye(5)[answered] > 0, sure, (1 - sure) / 4)


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        ((0, 60, 40, 0, 0), True),  # three fifths: half of what guessing leaves of all, and it
        ((0, 59, 41, 0, 0), False),
        ((29, 60, 11, 0, 0), True),  # more than twice as many as under their own names
        ((30, 60, 10, 0, 0), False),
        ((0, 6, 0, 0, 0), True),  # 30 records exceed guessing by ten deviations, and 20 do not
        ((0, 4, 0, 0, 0), False),
    ],
)
def test_other_names_are_told_from_half_of_what_guessing_leaves_on(
    cells: Sequence[int], named: bool
) -> None:
    answered, label = rows_of(cells)
    found = fits(as_sure(answered, 0.3), label)
    assert (found is not None and "labels look shifted by 1" in found.text) == named
    if named:
        assert found is not None
        shares = {key: one.value for key, one in found.estimates.items()}
        expected = {"members": cells[0], fit_of_labels.RENAMED: cells[1]}
        assert shares == {key: pytest.approx(many / sum(cells)) for key, many in expected.items()}


@pytest.mark.parametrize(
    ("cells", "sure", "verdict"),
    [
        ((20, 20, 20, 20, 20), 0.601, Verdict.WARNING),  # no better than guessing, and sure
        ((20, 20, 20, 20, 20), 0.599, Verdict.PASS),
        ((0, 25, 25, 25, 25), 0.401, Verdict.WARNING),  # below guessing, and twice as sure as that
        ((0, 25, 25, 25, 25), 0.399, Verdict.PASS),
        ((23, 20, 19, 19, 19), 0.9, Verdict.WARNING),  # within two deviations, of 1.8 % each
        ((24, 19, 19, 19, 19), 0.9, None),
    ],
)
def test_a_model_is_doubted_from_half_of_what_guessing_leaves_or_twice_guessing_on(
    cells: Sequence[int], sure: float, verdict: Verdict | None
) -> None:
    answered, label = rows_of(cells)
    found = fits(as_sure(answered, sure), label)
    assert (None if found is None else found.verdict) == verdict
    alone = fits(as_sure(answered, sure), label, soft=False)  # nobody can say how sure it is
    assert (None if alone is None else alone.verdict) == (verdict and Verdict.PASS)


@pytest.mark.parametrize(
    ("answer_counts", "label_counts", "silent"),
    [
        # shares fit in six tenths at most: .4 beyond guessing is ten deviations of 100 records
        ((48, 8, 8, 8, 8), (16,) * 5, True),
        ((72, 12, 12, 12, 12), (24,) * 5, False),
        # sorted, the shares are the same, though each class has others
        ((24, 4, 4, 4, 4), (4, 4, 4, 4, 24), False),
    ],
)
def test_nothing_is_said_where_even_fitting_labels_could_not_exceed_guessing(
    answer_counts: Sequence[int], label_counts: Sequence[int], silent: bool
) -> None:
    answered = np.repeat(np.arange(5), answer_counts)
    label = np.repeat(np.arange(5), label_counts)
    # by counts apart from each other: no better than guessing
    label = np.random.default_rng(0).permutation(label)
    found = fits(as_sure(answered, 0.9), label)
    assert (found is None) == silent


def asked_twice(noise: float, records: int = 32, seed: int = 0) -> Check | None:
    """Of answers whose probability of the true class varies by .2, and by noise from time to time.

    Half of the variance is due to chance at a noise of .2.
    """
    rng = np.random.default_rng(seed)
    own, truth = 0.5 + 0.2 * rng.normal(size=records), rng.integers(0, 2, records)

    def ask() -> np.ndarray:
        sure = own + noise * rng.normal(size=records)
        return np.where(np.arange(2) == truth[:, None], sure[:, None], 1 - sure[:, None])

    return of_answers.check_changing_answers(ask(), ask(), truth, 1e-3)


def test_answers_that_are_mostly_chance_are_doubted() -> None:
    for seed in range(100):
        assert asked_twice(0.0, seed=seed) is None
        assert asked_twice(0.05, seed=seed) is None
        assert "chance makes up" in warned(asked_twice(1.0, records=200, seed=seed))
    assert asked_twice(1.0, records=9) is None


def test_values_by_chance_are_doubted_by_their_errors_and_not_by_their_spread() -> None:
    rng = np.random.default_rng(0)
    truth = 100 * rng.normal(size=32)
    first, second = (truth + rng.normal(size=32) for _ in range(2))
    assert of_answers.check_changing_answers(first[:, None], second[:, None], truth, 0.1)
    assert not of_answers.check_changing_answers(first[:, None], first[:, None], truth, 0.1)


def learned(answers: np.ndarray, label: np.ndarray, easy: float = 0.6) -> Check | None:
    ease = np.random.default_rng(4).normal(easy, 0.2, (2, len(label)))
    return fit_of_labels.check_learning(answers, label, ease)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_model_that_knows_nothing_of_classes_that_are_easy_is_doubted(classes: int) -> None:
    truth = labels(classes)
    rng = np.random.default_rng(3)
    unsure = rng.dirichlet(np.full(classes, 50.0), len(truth))
    easy = 1 / classes + 0.3
    assert "do not depend on their classes" in warned(learned(unsure, truth, easy))
    assert learned(unsure, truth, easy=1 / classes) is None  # nor does any other model
    assert learned(unsure + 0.01 * np.eye(classes)[truth], truth, easy) is None


def test_variance_over_permutations_is_that_of_many() -> None:
    """With a gain of two standard deviations nothing is said, and below there is."""
    truth, rng = labels(3, 60), np.random.default_rng(3)
    answers = rng.dirichlet(np.ones(3), 60)
    drawn = [answers[np.arange(60), rng.permutation(truth)].mean() for _ in range(20_000)]
    limit = np.mean(drawn) + 2 * np.std(drawn)
    seen = []
    for _ in range(300):
        label = rng.permutation(truth)
        own = answers[np.arange(60), label].mean()
        if abs(own - limit) > 0.003:  # three standard errors of the limit by draws
            seen.append((own < limit) == (learned(answers, label, 0.9) is not None))
    assert len(seen) > 250
    assert all(seen)
