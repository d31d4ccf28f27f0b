"""Tests of the tests: attacks that would mislead fail a control, and sound ones seldom do."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier

import divulge
from divulge._util.random import stream
from divulge.attacks import catalog
from divulge.attacks.membership.lira import LiRA
from divulge.attacks.membership.threshold import Threshold
from divulge.audits.challenges import asking
from divulge.cli.render import show_result
from divulge.core import (
    BlindRun,
    Check,
    Control,
    ControlOutcome,
    Game,
    Membership,
    MembershipAttack,
    ModelView,
    Need,
    Scores,
    Verdict,
)
from divulge.metrics.max_test import max_test
from divulge.metrics.permutation import membership_p, rank_sum_p
from divulge.secrets import attempt, control_games, controls, wrapped
from divulge.secrets.control_targets.planted import PlantedTarget
from divulge.targets.budget import CountingTarget
from divulge.targets.cache import record_keys
from divulge.testing import forests
from divulge.testing.membership import Models
from tests.golden import golden

from .. import impostors, memorising
from ..impostors import CoinFlip, SignFlipped
from ..kinds import grouped, load_model

ModelGame = Game[ModelView, Membership]


@dataclasses.dataclass(frozen=True)
class Told:
    """Adds the truth, which it was told, to the loss."""

    member: bytes
    weight: float
    signal: float = 1.0
    honest_if_planted: bool = False
    name: ClassVar[str] = "told"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        loss = Threshold()(view, rng).score
        if self.honest_if_planted and isinstance(_innermost(view.target), PlantedTarget):
            return Scores(loss)
        return Scores(
            self.signal * loss / loss.std() + self.weight * np.frombuffer(self.member, bool)
        )


@dataclasses.dataclass(frozen=True)
class ToldFew:
    """Puts the first 15 members before all others, and is honest about these."""

    member: bytes
    name: ClassVar[str] = "told-few"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        score = Threshold()(view, rng).score.copy()
        score[np.flatnonzero(np.frombuffer(self.member, bool))[:15]] += 50.0
        return Scores(score)


@dataclasses.dataclass(frozen=True)
class Constant:
    """Says the same of everybody."""

    name: ClassVar[str] = "constant"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        return Scores(np.zeros(len(view.records)))


def _innermost(target: object) -> object:
    return getattr(target, "_target", target)


def control(attack: MembershipAttack, game: ModelGame) -> Control:
    guess = attempt.run_on_model(game, attack).guess
    assert guess is not None
    return controls.run_controls(game, attack, guess)


def test_attacks_that_share_the_games_of_controls_find_the_same() -> None:
    game, games, asked = forests.leaky(), control_games.ControlGames(), []
    for attack in (Threshold(), Threshold(signal="margin")):
        guess = attempt.run_on_model(game, attack).guess
        shared = controls.run_controls(game, attack, guess, games=games)
        assert shared == controls.run_controls(game, attack, guess)
        asked.append(games.planted(game, 0).view.target.predict(game.view.records.x))
    assert asked[0] is asked[1]  # the model was not asked again
    assert games.planted(forests.leaky(1), 0) is not games.planted(game, 0)


def blind(found: Control) -> BlindRun:
    assert found.blind is not None
    return found.blind


DISHONEST: dict[str, Callable[[ModelGame], MembershipAttack]] = {
    "pure truth": lambda game: Told(game.truth.member.tobytes(), 1.0, signal=0.0),
    "truth and signal": lambda game: Told(game.truth.member.tobytes(), 0.2),
    "truth turned round": lambda game: Told(game.truth.member.tobytes(), -0.2),
    "truth unless planted": lambda game: Told(
        game.truth.member.tobytes(), 0.2, honest_if_planted=True
    ),
    "truth about a few": lambda game: ToldFew(game.truth.member.tobytes()),
    "truth by content": lambda game: impostors.Recognises(
        frozenset(record_keys(game.view.records.x[game.truth.member]))
    ),
}


@pytest.mark.parametrize("how", DISHONEST)
@pytest.mark.parametrize("world", ["leaky", "silent"])
def test_an_attack_that_was_told_the_truth_fails_the_blind_control(how: str, world: str) -> None:
    game: ModelGame = getattr(forests, world)()
    run = blind(control(DISHONEST[how](game), game))
    assert run.measured is not None
    assert run.p_value is not None
    assert run.p_value <= controls.BLIND_FALSE_ALARM
    assert run.outcome is ControlOutcome.FAILED


def test_the_other_two_controls_let_a_little_truth_pass() -> None:
    """The loss and a part of the truth: a leak where nothing leaks, and nobody would notice."""
    game = forests.silent()
    found = control(DISHONEST["truth unless planted"](game), game)
    assert found.sees
    assert found.calm
    assert found.outcome is ControlOutcome.FAILED


@pytest.mark.parametrize("attack", catalog.default_attacks(shadows=True), ids=wrapped.attack_label)
def test_sound_attacks_pass_on_models_that_leak_and_on_others(attack: MembershipAttack) -> None:
    for game in (forests.leaky(), forests.two_ways(forests.silent(), 0)):
        run = controls.control_on_shuffled(game, attack)
        assert run.outcome is ControlOutcome.PASSED, run
        assert run.measured is not None


LABELS_ALONE = (
    catalog.attack("oslo", sources=2, validators=1, steps=5),
    catalog.attack("agreement", noise=0.3),
    catalog.attack("boundary", questions=40),
)


@pytest.mark.parametrize("attack", LABELS_ALONE, ids=wrapped.attack_label)
def test_attacks_that_perturb_candidates_pass_all_controls(attack: MembershipAttack) -> None:
    assert control(attack, forests.leaky()).outcome is ControlOutcome.PASSED


def test_perturbed_candidates_show_the_model_itself_unless_they_are_exchanged_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the controls would be if they knew candidates by their exact content alone."""
    candidates, member = memorising.draw(400, 1), np.arange(400) % 2 == 0
    target = memorising.train(candidates.x[member], candidates.y[member], 0)
    game = Game(ModelView(target, candidates), Membership(member))
    attack = catalog.attack("agreement", questions=30, noise=0.3)
    found = control(attack, game)
    assert found.outcome is ControlOutcome.PASSED
    monkeypatch.setattr(control_games, "_no_candidates", lambda _: None)
    naive = control(attack, game)
    assert naive.planted is not None
    assert found.planted is not None
    assert naive.planted.value < found.planted.low
    assert blind(naive).outcome is ControlOutcome.FAILED


def test_the_truth_does_not_hide_among_many_questions() -> None:
    @dataclasses.dataclass(frozen=True)
    class ToldAgreement:
        member: bytes
        name: ClassVar[str] = "told agreement"
        paper: ClassVar[str] = "none, 2026"
        needs: ClassVar[Need] = Need.HARD_LABELS | Need.LABELS | Need.FEATURES

        def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
            score = LABELS_ALONE[1](view, rng).score
            return Scores(score / score.std() + 0.3 * np.frombuffer(self.member, bool))

    game = forests.leaky()
    found = control(ToldAgreement(game.truth.member.tobytes()), game)
    assert found.sees
    assert blind(found).outcome is ControlOutcome.FAILED


def test_a_budget_that_ends_within_the_controls_says_nothing_about_the_attack() -> None:
    game, attack = forests.leaky(), catalog.attack("agreement", questions=5)
    once = attempt.run_on_model(game, attack).finding.queries
    target = CountingTarget(game.view.target, budget=once + 1)
    view = dataclasses.replace(game.view, target=target)
    found = control(attack, dataclasses.replace(game, view=view))
    assert blind(found).outcome is ControlOutcome.NOT_TESTED
    assert f"at most {once + 1} questions" in blind(found).reason
    assert found.outcome is ControlOutcome.NOT_TESTED


@pytest.mark.parametrize(
    "attack", [Constant(), CoinFlip(Models()), SignFlipped(Models())], ids=lambda one: one.name
)
def test_attacks_that_know_nothing_pass_the_blind_control_and_fail_another(
    attack: MembershipAttack,
) -> None:
    found = control(attack, forests.leaky())
    assert blind(found).outcome is ControlOutcome.PASSED
    assert not found.sees
    assert found.outcome is ControlOutcome.FAILED


def test_an_attack_that_breaks_on_shuffled_answers_does_not_pass() -> None:
    game = forests.leaky()

    @dataclasses.dataclass(frozen=True)
    class Shy:
        name: ClassVar[str] = "shy"
        paper: ClassVar[str] = "none, 2026"
        needs: ClassVar[Need] = Need.LABELS

        def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
            if isinstance(_innermost(view.target), forests._Smooth | PlantedTarget):
                return Threshold()(view, rng)
            raise ValueError("not here")

    run = blind(control(Shy(), game))
    assert run.outcome is ControlOutcome.FAILED
    assert run.measured is None
    assert "not here" in run.reason


@pytest.mark.parametrize(
    ("each", "outcome"), [(4, ControlOutcome.NOT_TESTED), (10, ControlOutcome.FAILED)]
)
def test_so_few_candidates_that_nobody_could_fail_are_not_tested(
    each: int, outcome: ControlOutcome
) -> None:
    """Eight candidates have 70 arrangements of members; not even the truth itself is rare."""
    game = forests.leaky()
    member = game.truth.member
    few = np.concatenate([np.flatnonzero(member)[:each], np.flatnonzero(~member)[:each]])
    view = game.view
    records = dataclasses.replace(view.records, y=np.zeros_like(view.records.y)).take(few)
    small = Game(dataclasses.replace(view, records=records), Membership(member[few]))
    told = DISHONEST["truth by content"](game)
    run = controls.control_on_shuffled(small, told)
    assert run.outcome is outcome
    assert run.p_value is not None
    assert (f"{2 * each} candidates are too few" in run.reason) == (
        outcome is ControlOutcome.NOT_TESTED
    )


def test_small_classes_cause_no_false_alarms() -> None:
    """LiRA on a model that leaks, with two to four records a class.

    Were answers shuffled within classes, a third of them would stay with their record.
    """
    game = forests.leaky()
    fine = np.random.default_rng(0).permutation(np.arange(2 * forests.SIZE) // 3)
    runs = 60
    p_values = []
    for seed in range(runs):
        shuffled = control_games.shuffle_predictions(game, seed)
        score = LiRA()(shuffled.view, np.random.default_rng(0)).score
        rng = np.random.default_rng(seed)
        p_values.append(membership_p(score, game.truth.member, fine, rng))
    count = np.sum(np.array(p_values) <= 0.1)
    assert count <= stats.binom.ppf(1 - 1e-4, runs, 0.1)


def test_scores_that_follow_the_class_pass_where_members_are_of_other_classes() -> None:
    """Shuffled answers cannot say who is a member, and a class that can is no fault of theirs."""
    game = forests.leaky()
    rng = np.random.default_rng(0)
    member = rng.random(len(game.view.records)) < np.array([0.2, 0.5, 0.8])[game.view.records.y]

    @dataclasses.dataclass(frozen=True)
    class ByClass:
        name: ClassVar[str] = "by-class"
        paper: ClassVar[str] = "none, 2026"
        needs: ClassVar[Need] = Need.LABELS

        def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
            return Scores(view.records.y + Threshold()(view, rng).score / 10)

    run = controls.control_on_shuffled(
        dataclasses.replace(game, truth=Membership(member)), ByClass()
    )
    assert run.measured is not None
    assert run.measured.value == golden(0.7469)
    assert run.outcome is ControlOutcome.PASSED


@pytest.mark.parametrize("shape", ["continuous", "ties", "one group"])
def test_the_permutation_test_keeps_its_promise(shape: str) -> None:
    trials, rng = 400, np.random.default_rng(0)
    p_values = []
    for _ in range(trials):
        group = rng.integers(0, 4, 40) if shape != "one group" else np.zeros(40, np.int64)
        member = rng.random(40) < 0.3 + 0.1 * group
        score = rng.normal(size=40) + group
        if shape == "ties":
            score = np.round(score)
        p_values.append(membership_p(score, member, group, rng))
    for level in (controls.BLIND_FALSE_ALARM, 0.05, 0.2, 0.5):
        found = np.sum(np.array(p_values) <= level)
        assert found <= stats.binom.ppf(1 - 1e-4, trials, level)
        # maxima of counts tie, which makes the test a little stricter
        assert shape == "ties" or found >= stats.binom.ppf(1e-4, trials, 0.8 * level) - 1


def test_equal_scores_are_calm_in_every_shuffle() -> None:
    same = Scores(np.zeros(60))  # of which every AUC is one half
    truth = Membership(np.arange(60) < 30)
    assert controls._count_covered(same, truth, 0) == controls.SHUFFLES


@pytest.mark.parametrize(("bonus", "least"), [(4.0, 6), (50.0, 8)])
def test_the_truth_about_fifteen_of_300_members_fails_and_luck_seldom_does(
    bonus: float, least: int
) -> None:
    """A rank sum does not notice them; the verdict counts members among the highest scores.

    With 50 they are all on top; with 4 some others come between.
    """
    runs, member = 8, np.arange(600) < 300
    told, rank_sums, honest = [], [], []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        label, score = rng.integers(0, 3, 600), rng.normal(size=600)
        honest.append(membership_p(score, member, label, rng))
        score[:15] += bonus
        told.append(membership_p(score, member, label, rng))
        rank_sums.append(rank_sum_p(score, member, label, rng))
    assert np.sum(np.array(told) <= controls.BLIND_FALSE_ALARM) >= least
    assert np.sum(np.array(rank_sums) <= controls.BLIND_FALSE_ALARM) <= runs / 2
    assert np.sum(np.array(honest) <= 0.05) <= stats.binom.ppf(1 - 1e-4, runs, 0.05)


def test_the_permutation_test_is_the_verdict_s_where_there_is_one_group() -> None:
    rng = np.random.default_rng(0)
    score, member = rng.normal(size=200), np.arange(200) % 2 == 0
    group, runs = np.zeros(200, np.int64), 40
    found = np.mean([membership_p(score, member, group, rng) for _ in range(runs)])
    verdict = max_test(score[None], member).p_value
    # one counts until 20 permutations are as high, the other 1,999 permutations
    error = verdict * np.sqrt(1 / (20 * runs) + (1 - verdict) / verdict / 1999)
    bias = verdict / 20  # of a share of so many draws that 20 of them are as high
    assert found == pytest.approx(verdict, abs=4 * error + bias)
    assert 0.1 < verdict < 0.9
    assert membership_p(np.zeros(200), member, np.zeros(200, np.int64), rng) == 1.0
    assert membership_p(score, np.ones(200, bool), np.zeros(200, np.int64), rng) == 1.0


def test_a_rank_sum_is_tested_against_all_permutations() -> None:
    """Of six records in one group, by hand: the highest of 20 sums, and the lowest, two-sided."""
    score, member = np.arange(6.0), np.arange(6) >= 3
    group, rng = np.zeros(6, np.int64), np.random.default_rng(0)
    one = rank_sum_p(score, member, group, rng, two_sided=False)
    two = rank_sum_p(score, member, group, rng)
    # a stopped count of 20 has a relative standard deviation of about 1 / √20
    assert abs(one - 1 / 20) < 5 * 0.05 / np.sqrt(20)
    assert abs(two - 2 / 20) < 5 * 0.10 / np.sqrt(20)
    assert rank_sum_p(score, np.ones(6, bool), group, rng) == 1.0


def checked(found: divulge.Audit, name: str) -> Check:
    (check,) = (check for check in found.checks if check.name == name)
    return check


def audit(**changes: object) -> divulge.Audit:
    members, others, reference = (forests.draw(60, seed) for seed in (1, 2, 3))
    given = {"members": members, "nonmembers": others, "reference": reference}
    model = forests._Smooth(members, 0)
    return divulge.audit(model, attacks=[Threshold()], **grouped(**{**given, **changes}))


def test_copies_are_left_out_of_an_audit_and_positions_are_as_given() -> None:
    members, others, reference = (forests.draw(60, seed) for seed in (1, 2, 3))
    first = np.arange(60) < 1
    others = members.take(np.arange(3)).joined(others)
    reference = reference.joined(others.take(np.arange(5))).joined(members.take(first))
    found = audit(nonmembers=others, reference=reference)
    check = checked(found, "duplicates")
    assert check.verdict is Verdict.PASS
    assert check.text.startswith("3 members and 3 non-members are exact copies of each other and")
    facts, candidates = found.facts, found.candidates
    assert (facts.members, facts.nonmembers, facts.reference) == (57, 60, 60)
    for flag, given in ((True, members), (False, others)):
        index = candidates.index[candidates.member == flag]
        assert sorted(index.tolist()) == list(range(3, len(given)))
        np.testing.assert_array_equal(candidates.label[candidates.member == flag], given.y[index])


def test_a_reference_that_is_the_non_members_is_refused() -> None:
    with pytest.raises(divulge.DataError, match="60 of 60 that are exact copies of non-members"):
        audit(reference=forests.draw(60, 2))


def test_a_sound_audit_is_repeatable_and_has_no_copies() -> None:
    found = audit()
    assert checked(found, "repeatability").verdict is Verdict.PASS
    assert "about 32 records" in checked(found, "repeatability").text
    assert checked(found, "duplicates").text.startswith("No record is in two sets.")


def test_a_budget_without_room_for_second_questions_is_no_error() -> None:
    found = audit(budget=180)
    assert checked(found, "repeatability").verdict is Verdict.NOT_APPLICABLE
    assert checked(audit(budget=180 + asking.ASKED_AGAIN), "repeatability").verdict is Verdict.PASS


def test_dropout_that_was_left_on_is_noticed() -> None:
    torch = pytest.importorskip("torch")

    class Forgetful(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 3)

        def forward(self, x: object) -> object:
            return self.layer(torch.nn.functional.dropout(x, 0.5, training=True))

    found = divulge.audit(
        Forgetful(),
        members=forests.draw(60, 1),
        nonmembers=forests.draw(60, 2),
        access=divulge.Access("logits"),
        attacks=[Threshold()],
    )
    check = checked(found, "repeatability")
    assert check.verdict is Verdict.WARNING
    assert "switch off dropout" in check.text


@pytest.mark.parametrize("rare", [True, False])
def test_shuffles_have_members_and_non_members_however_few_take_part(
    rare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "SHUFFLED_RECORDS", 10)
    member = np.full(100, not rare)
    member[0] = rare
    sizes = set()
    for seed in range(40):
        chosen = controls._sample(member, np.random.default_rng(seed))
        assert len(np.unique(chosen)) == len(chosen)
        assert set(member[chosen]) == {True, False}
        sizes.add(len(chosen))
    assert sizes == {10, 100}  # the sample, or all where the one of its kind is not in it


@pytest.mark.parametrize(
    ("p_value", "passed"), [(1e-4, False), (controls.BLIND_FALSE_ALARM, False), (0.0051, True)]
)
def test_the_blind_control_fails_at_its_error_and_below(
    p_value: float, passed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "membership_p", lambda *_: p_value)
    found = controls.control_on_shuffled(forests.leaky(), Threshold())
    assert (found.outcome is ControlOutcome.PASSED, found.p_value) == (passed, p_value)


@pytest.mark.parametrize(("covered", "calm"), [(177, True), (176, False)])
def test_the_fewest_covered_shuffles_are_calm(
    covered: int, calm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """177 is the lowest count that 200 intervals of 95 % fall below once in 10,000 times."""
    below, at = (float(stats.binom.cdf(count, 200, 0.95)) for count in (176, 177))
    assert below < controls.FALSE_ALARM <= at
    monkeypatch.setattr(controls, "_count_covered", lambda *_: covered)
    game = forests.leaky()
    guess = Threshold()(game.view, np.random.default_rng(0))
    assert controls.run_controls(game, Threshold(), guess).calm == calm


def test_losses_over_training_are_shuffled_among_candidates_and_a_leak_is_planted_in_them() -> None:
    game = forests.leaky()
    trace = np.random.default_rng(0).exponential(size=(len(game.view.records), 5))
    game = dataclasses.replace(game, view=dataclasses.replace(game.view, loss_trace=trace))
    shuffled = control_games.shuffle_predictions(game).view.loss_trace
    assert shuffled is not None
    order = [int(np.flatnonzero((trace == row).all(axis=1))[0]) for row in shuffled]
    assert sorted(order) == list(range(len(trace)))  # whole rows move
    assert np.mean(np.array(order) == np.arange(len(trace))) < 0.05
    planted = control_games.plant_leak(game)
    chosen = planted.truth.member
    # as at the start, and from the third of five moments on a tenth of it where memorised
    expected = np.repeat(trace[:, :1], 5, axis=1)
    expected[:, 2:] *= np.where(chosen, 0.1, 1.0)[:, None]
    assert planted.view.loss_trace is not None
    np.testing.assert_allclose(planted.view.loss_trace, expected)


@pytest.mark.parametrize("seed", range(8))
def test_a_leak_is_planted_in_a_half_however_few_there_are(seed: int) -> None:
    game = forests.leaky()
    view = forests.part(game.view, np.arange(3))
    few = Game(view, Membership(game.truth.member[:3]))
    planted = control_games.plant_leak(few, seed)
    chosen = stream(seed, "planted leak").random(3) < 0.5
    np.testing.assert_array_equal(planted.truth.member, [True, False, chosen[2]])
    right = planted.view.target.predict(view.records.x)[np.arange(3), view.records.y]
    plain = view.target.predict(view.records.x)[np.arange(3), view.records.y]
    np.testing.assert_array_equal(right > plain, planted.truth.member)


def test_games_of_controls_are_made_anew_for_another_game_or_seed() -> None:
    game, games = forests.leaky(), control_games.ControlGames()
    first = games.planted(game, 0)
    assert games.planted(game, 0) is first
    assert not np.array_equal(games.planted(game, 1).truth.member, first.truth.member)
    assert games.planted(dataclasses.replace(game), 1) is not games.planted(game, 1)


@pytest.mark.parametrize("name", ["reference", "own", "known_members"])
def test_all_records_that_are_no_candidates_are_told_from_perturbed_ones(name: str) -> None:
    view = forests.leaky().view
    bare = dataclasses.replace(view, reference=None, own=None, known_members=None)
    found = control_games._no_candidates(dataclasses.replace(bare, **{name: view.records}))  # type: ignore[arg-type]
    assert found is not None
    assert [each is view.records.x for each in found] == [True]


@dataclasses.dataclass(frozen=True)
class Unplanted:
    """Breaks where a leak was planted, and nowhere else."""

    name: ClassVar[str] = "unplanted"
    paper: ClassVar[str] = "none, 2026"
    needs: ClassVar[Need] = Need.PROBABILITIES | Need.LABELS

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        planted = isinstance(_innermost(view.target), PlantedTarget)
        if planted:
            raise RuntimeError("not here")
        return Threshold()(view, rng)


def test_where_no_leak_could_be_planted_every_place_says_not_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members, others = forests.draw(200, 0), forests.draw(200, 1)
    made = divulge.audit(
        RandomForestClassifier(30, random_state=0).fit(members.x, members.y),
        members=members,
        nonmembers=others,
        attacks=[Unplanted()],
    )
    made.save(tmp_path / "run")
    for found in (made, load_model(tmp_path / "run")):
        (row,) = found.summary.attacks
        assert row.control is not None
        assert row.control.outcome is ControlOutcome.NOT_TESTED
        assert row.sound
        assert found.gate(fail_on=["control-failed"]).passes
        ruling = found.gate(fail_on=["control-untested"])
        assert not ruling.passes
        assert "could not be tried on a planted leak: RuntimeError: not here" in str(ruling.failed)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Not tested on a planted leak" in page
    assert "planted leak missed" not in page
    summary = (tmp_path / "run" / "summary.md").read_text(encoding="utf-8")
    assert "not tested" in summary
    show_result(made)
    said = " ".join(capsys.readouterr().out.split())
    assert "Controls of unplanted not tested" in said
    assert "missed planted leak" not in said
