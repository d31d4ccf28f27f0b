"""What the page of a federation says first: every level, for every secret."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from divulge.core import (
    NOBODY,
    Assignment,
    Collusion,
    Finding,
    Interactions,
    Proportions,
    Reconstruction,
    Status,
)
from divulge.metrics import conditional
from divulge.metrics.uninformed import assignment, composition, interactions
from divulge.metrics.uninformed.draws import ERROR
from divulge.report.federation.verdicts.assignment import AssignmentWords
from divulge.report.federation.verdicts.case import Judgement, VerdictWords
from divulge.report.federation.verdicts.composition import CompositionWords
from divulge.report.federation.verdicts.interactions import InteractionWords
from divulge.report.federation.verdicts.judge import judge_federation
from tests.uneven_federations import SHAPES, SMALLEST, Knowledge, Question, Shape

DONE = Finding("a", "a", "", {}, Status.DONE)
RANDOM = replace(DONE, label="coin", attack="random-interactions")
FAILED = replace(DONE, label="b", status=Status.FAILED, reason="broken")


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def owners(right: float, records: int = 60) -> AssignmentWords:
    """One attack that is right about a share of the records and guesses the others."""
    made = rng()
    truth = Assignment(made.permutation(np.arange(records) % 4 - 1))
    known = Collusion(2, np.zeros(0, bool), truth.client == 2)
    other = np.where(known.records, 2, made.permutation(np.arange(records) % 3 - 1))
    guess = Assignment(np.where(made.random(records) < right, truth.client, other))
    label = np.zeros(records, int)
    return AssignmentWords(
        [guess], truth, known, assignment.randomise([guess], truth, known, label, made)
    )


def shares(right: float, clients: int = 8) -> CompositionWords:
    """One attack whose guesses are in part those of other clients."""
    made = rng()
    truth = [
        Proportions.of(made.multinomial(100, made.dirichlet([0.5] * 5))) for _ in range(clients)
    ]
    other = [*truth[1:], truth[0]]
    guess = [
        Proportions(right * a.share + (1 - right) * b.share, a.null if right == 1 else b.null)
        for a, b in zip(truth, other, strict=True)
    ]
    return CompositionWords([guess], truth, composition.randomise([guess], truth, made))


def clicks(right: float, clients: int = 8) -> InteractionWords:
    """One attack that sees through a share of the items."""
    made = rng()
    truth = [Interactions(made.permutation(np.arange(20) < 6)) for _ in range(clients)]
    score = [np.where(made.random(20) < right, one.acted, made.random(20)) for one in truth]
    guess = [Reconstruction(one.astype(float), one > 0.5) for one in score]
    return case_of([guess], truth)


def case_of(
    guesses: Sequence[Sequence[Reconstruction] | None],
    truth: Sequence[Interactions],
    shuffled: float | None = None,
) -> InteractionWords:
    """The case of items without features, and of what the attacks achieve on shuffled clicks."""
    labels = [one.acted for one in truth]
    covariates = [np.zeros((len(one), 1)) for one in labels]
    without = None if shuffled is None else np.full(len(truth), shuffled)
    beyond = [
        None
        if guess is None
        else interactions.BeyondPublic(
            conditional.partial_correlations([one.score for one in guess], labels, covariates)
            if truth
            else np.zeros(0),
            without,
        )
        for guess in guesses
    ]
    tested = interactions.randomise(guesses, truth, rng(), beyond)
    return InteractionWords(guesses, truth, tested, beyond)


CASES: Sequence[Callable[[float], VerdictWords]] = (owners, shares, clicks)


@pytest.mark.parametrize("made", CASES)
def test_a_perfect_attack_shows_a_leak(made: Callable[[float], VerdictWords]) -> None:
    case = made(1.0)
    found = judge_federation(case, [DONE, FAILED])
    assert found.level == "leak"
    assert found.headline == case.leaks
    assert found.p_value is not None
    assert found.p_value <= 0.01
    assert found.attack == "a"
    assert found.sentences[0].startswith("The attack ")
    assert found.next_step.startswith(case.defend)


def test_guesses_that_point_the_wrong_way_make_the_inputs_doubtful() -> None:
    case = clicks(1.0)
    turned = [Interactions(~one.acted) for one in case.truth or ()]
    found = judge_federation(case_of(case.guesses, turned), [DONE])
    assert (found.level, found.attack) == ("inputs doubtful", "a")
    assert "looks reversed" in found.headline
    assert (
        "picks the clicked one of two items, of which one was clicked, 0.0 %" in found.sentences[0]
    )
    assert "truth in [interactions]" in found.next_step
    assert found.p_value is not None
    assert found.p_value <= ERROR


def test_shares_that_are_read_from_reversed_updates_make_the_inputs_doubtful() -> None:
    """What a client holds most of is then what it seems to hold least of."""
    truth = shares(1.0).truth or ()
    turned = [replace_share(one, 1 - one.share) for one in truth]
    tested = composition.randomise([turned], truth, rng())
    found = judge_federation(CompositionWords([turned], truth, tested), [DONE])
    assert (found.level, found.attack) == ("inputs doubtful", "a")
    assert "counts in [updates]" in found.next_step
    assert "the sign of what clients sent" in found.next_step


def replace_share(one: Proportions, weight: np.ndarray) -> Proportions:
    return Proportions(weight / weight.sum(), weight <= 0)


def test_a_leak_stands_where_another_attack_points_the_wrong_way() -> None:
    case = clicks(1.0)
    (guess,) = case.guesses
    turned = [replace(one, score=1 - one.score) for one in guess or ()]
    both = [guess, turned]
    found = judge_federation(case_of(both, case.truth or []), [DONE, replace(DONE, label="b")])
    assert (found.level, found.attack) == ("leak", "a")


@pytest.mark.slow
def test_guesses_that_know_nothing_seldom_make_the_truth_look_reversed() -> None:
    made, runs, doubts = rng(), 100, 0
    for _ in range(runs):
        truth = [Interactions(made.permutation(np.arange(12) < 4)) for _ in range(6)]
        guess = [Reconstruction(made.random(12), made.random(12) > 0.5) for _ in truth]
        doubts += judge_federation(case_of([guess], truth), [DONE]).level == "inputs doubtful"
    assert doubts <= stats.binom.isf(1e-3, runs, ERROR / 2)


@pytest.mark.parametrize("made", CASES)
def test_guesses_that_know_nothing_show_none_and_what_could_hide_is_said(
    made: Callable[[float], VerdictWords],
) -> None:
    found = judge_federation(made(0.0), [DONE])
    assert found.level == "no leak found"
    assert found.headline == "No leak was found by the 1 attack tried"
    assert found.p_value is not None
    assert found.p_value > 0.05
    assert "could still hide" in found.sentences[1]
    assert "four of five such audits" in found.sentences[1]
    assert found.sentences[2] == "Other kinds of attack were not tried."


@pytest.mark.parametrize("made", CASES)
def test_an_attack_that_failed_a_control_shows_neither(
    made: Callable[[float], VerdictWords],
) -> None:
    for right in (0.0, 1.0):
        found = judge_federation(made(right), [DONE], unsound={0})
        assert found.level == "instrument failed"
        assert found.attack == "a"
        assert found.p_value is None


def test_an_alarm_of_an_unsound_attack_forbids_to_say_that_nothing_was_found() -> None:
    quiet, loud = clicks(0.0), clicks(1.0)
    assert quiet.truth is not None
    guesses = [*quiet.guesses, *loud.guesses]
    both = case_of(guesses, quiet.truth)
    findings = [DONE, replace(DONE, label="loud")]
    assert judge_federation(both, findings).level == "leak"
    assert judge_federation(both, findings, unsound={1}).level == "instrument failed"
    assert judge_federation(both, findings, unsound={0}).attack == "loud"


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (owners(1.0, records=4), "4 that a client trained on"),
        (shares(1.0, clients=3), "4 or more clients"),
        (clicks(1.0, clients=4), "5 or more clients"),
        (clicks(1.0, clients=1), "Each client counts once"),
        (clicks(1.0, clients=0), "5 or more clients"),
    ],
)
def test_too_few_units_decide_nothing_whatever_was_found(case: VerdictWords, says: str) -> None:
    found = judge_federation(case, [DONE])
    assert found.level == "undecided"
    assert found.p_value is None
    assert "neither shows a leak nor rules one out" in found.sentences[1]
    assert says in found.next_step


@pytest.mark.parametrize(
    ("smallest", "level"), [(ERROR * (1 + 1e-12), "no leak found"), (0.0501, "undecided")]
)
def test_a_smallest_p_of_the_error_itself_is_small_enough(smallest: float, level: str) -> None:
    """One of twenty arrangements: rounding must not make it one of fewer."""
    case = clicks(0.0)
    assert case.test is not None
    same = replace(case, test=replace(case.test, smallest=smallest))
    assert judge_federation(same, [DONE]).level == level


def test_as_many_units_as_the_next_step_names_are_enough() -> None:
    eight = Assignment(np.repeat([0, NOBODY], 4))
    known = Collusion(1, np.zeros(0, bool), np.zeros(8, bool))
    drawn = assignment.randomise([eight], eight, known, np.zeros(8, int), rng())
    truth = [Interactions(np.arange(2) < 1)] * 5
    guess = [Reconstruction(one.acted.astype(float), one.acted) for one in truth]
    few: list[VerdictWords] = [
        AssignmentWords([eight], eight, known, drawn),
        shares(1.0, clients=4),
        case_of([guess], truth),
    ]
    assert [judge_federation(case, [DONE]).level for case in few] == ["leak"] * 3


def test_without_the_truth_or_without_an_attack_nothing_is_measured() -> None:
    case = clicks(1.0)
    blind: list[tuple[VerdictWords, Judgement]] = [
        (one, judge_federation(one, [DONE]))
        for one in (
            AssignmentWords([None], None, Collusion(0, np.zeros(0, bool), np.zeros(3, bool)), None),
            CompositionWords([None], None, None),
            InteractionWords([None], None, None),
        )
    ]
    for one, found in blind:
        assert found.level == "nothing measured"
        assert one.setting in found.next_step
        assert one.subject in found.sentences[0]
    none = judge_federation(case, [FAILED])
    assert none.level == "nothing measured"
    assert "table of attacks" in none.next_step
    assert judge_federation(case, [RANDOM]).level == "nothing measured"


def test_what_an_attack_achieves_without_the_clicks_is_said_and_shows_no_leak() -> None:
    case = clicks(0.6)
    public = case_of(case.guesses, case.truth or [], shuffled=0.9)
    found = judge_federation(public, [DONE])
    assert found.level == "no leak found"
    assert "the same attack on shuffled clicks: 90 %" in found.sentences[0]
    assert "chance, or what is public, explains this" in found.sentences[0]
    alone = judge_federation(case_of(case.guesses, case.truth or [], shuffled=0.5), [DONE])
    assert alone.level == "leak"
    uncompared = judge_federation(case_of(case.guesses, case.truth or []), [DONE])
    assert uncompared.level == "leak"
    assert "not compared with shuffled clicks" in uncompared.sentences[0]


def test_a_run_without_the_comparison_with_public_features_is_undecided() -> None:
    case = clicks(1.0)
    assert case.truth is not None
    tested = interactions.randomise(case.guesses, case.truth, rng())
    found = judge_federation(replace(case, test=tested, beyond=(None,)), [DONE])
    assert found.level == "undecided"
    assert "earlier version" in found.next_step


def test_baselines_are_not_counted_among_the_attacks_tried() -> None:
    case = clicks(0.0)
    assert case.truth is not None
    guesses = [*case.guesses, *clicks(1.0).guesses]
    both = case_of(guesses, case.truth)
    assert (
        judge_federation(both, [DONE, RANDOM]).headline == "No leak was found by the 1 attack tried"
    )


@pytest.mark.parametrize(("made", "figures"), [(owners, 2), (shares, 2), (clicks, 1)])
def test_limits_hold_together_for_all_figures_that_a_sentence_may_give(
    made: Callable[[float], VerdictWords], figures: int
) -> None:
    case = made(0.6)
    assert case.test is not None
    assert case.test.strongest is not None
    said = judge_federation(case, [DONE]).sentences[0]
    each = [case.describe_result(0, case.test.strongest[1], 1 - ERROR / n) for n in (1, 2)]
    assert [one in said for one in each] == [figures == 1, figures == 2]


def test_limits_of_several_attacks_hold_together() -> None:
    case = clicks(0.6)
    assert case.truth is not None
    many = case.guesses[0]
    assert many is not None
    guesses = [many] * 5
    five = case_of(guesses, case.truth)
    one, all_five = (
        judge_federation(case, [DONE]).sentences[0],
        judge_federation(five, [DONE] * 5).sentences[0],
    )
    alone, together = (text.partition("interval ")[2].split(")")[0] for text in (one, all_five))
    widths = [
        float(text.split(" to ")[1]) - float(text.split(" to ")[0]) for text in (alone, together)
    ]
    assert widths[1] > widths[0]
    assert "of the 5 attacks" in all_five


@pytest.mark.parametrize("statistic", ["accuracy", "auc", "top@0.05"])
def test_every_statistic_of_assignments_has_words(statistic: str) -> None:
    made, truth = rng(), Assignment(np.arange(60) % 4 - 1)
    known = Collusion(2, np.zeros(0, bool), truth.client == 2)
    score = made.random((60, 3)) + (truth.client[:, None] == np.arange(3))
    guess = Assignment(truth.client, score)
    drawn = assignment.randomise([guess], truth, known, np.zeros(60, int), made)
    said = AssignmentWords([guess], truth, known, drawn).describe_result(0, statistic, 0.95)
    words = {"accuracy": "names the right", "auc": "tells a record", "top@0.05": "is right about"}
    assert said.startswith(words[statistic])
    assert "without information" in said


def test_null_classes_have_words() -> None:
    assert "says rightly of 100 %" in shares(1.0).describe_result(0, "null", 0.95)


def _judge(shape: Shape, case: VerdictWords) -> Judgement:
    labels = [f"attack {k}" for k in range(shape.attacks)]
    return judge_federation(case, [replace(DONE, label=label) for label in labels])


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("question", SMALLEST, ids=lambda one: one.__name__)
def test_a_perfect_attack_shows_a_leak_wherever_chance_does_not_explain_it(
    name: str, question: Question
) -> None:
    shape, smallest = SHAPES[name], SMALLEST[question](SHAPES[name])
    case = question(shape, "all")
    assert case.test is not None
    assert case.test.smallest == pytest.approx(smallest, rel=1e-9)
    found = _judge(shape, case)
    assert found.level == ("leak" if smallest <= ERROR else "undecided")
    if found.level == "leak":
        assert found.attack == f"attack {shape.attacks - 1}"
        assert found.p_value is not None
        assert found.p_value >= smallest * (1 - 1e-9)
        last, confidence = shape.attacks - 1, 1 - ERROR / (case.figures * shape.attacks)
        figures = [
            case.describe_result(last, statistic, confidence)
            for attack, statistic in case.test.columns
            if attack == last
        ]
        assert any(figure in found.sentences[0] for figure in figures)
        many = f"The strongest of the {shape.attacks} attacks"
        assert found.sentences[0].startswith("The attack" if shape.attacks == 1 else many)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("question", SMALLEST, ids=lambda one: one.__name__)
@pytest.mark.parametrize("knows", ["opposite", "nothing"])
def test_what_is_reversed_or_knows_nothing_is_never_a_leak(
    name: str, question: Question, knows: Knowledge
) -> None:
    shape = SHAPES[name]
    found = _judge(shape, question(shape, knows))
    assert found.level in ("no leak found", "inputs doubtful", "undecided")
    assert knows == "opposite" or found.level != "inputs doubtful"
