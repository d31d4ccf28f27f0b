"""Every answer defence of the catalogue has every property of the table; bad ones do not."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

import numpy as np
import pytest
from scipy import stats

import divulge
from divulge.attacks import catalog as attacks_catalog
from divulge.cli import listing
from divulge.core import AnswerDefence, Finding, Need, NoiseKind
from divulge.defences import catalog
from divulge.defences.answers.coarse import Rounding, TopOne
from divulge.defences.answers.noise import AnswerNoise, RankOrder
from divulge.defences.answers.temperature import Temperature
from divulge.errors import SpecError
from divulge.targets import DefendedTarget, FunctionTarget
from divulge.targets.outputs import to_probabilities
from tests.golden import golden

from .. import memorising
from ..kinds import audit_model
from . import answer_table as table

DEFENCES: tuple[AnswerDefence, ...] = (
    *(catalog.answer_defence(name) for name in catalog.ANSWER_DEFENCES),
    Rounding(digits=3),
    Temperature(0.5),
    AnswerNoise(0.01),
    AnswerNoise(2.0),
    AnswerNoise(noise="secure"),
    RankOrder("secure"),
)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("prove", table.PROPERTIES, ids=lambda prove: prove.__name__)
@pytest.mark.parametrize("defence", DEFENCES, ids=repr)
def test_property(defence: AnswerDefence, prove: table.Property) -> None:
    prove(defence)


@dataclass(frozen=True)
class Careless:
    """Writes into the answers, forgets what it said before, and moves the label."""

    name: ClassVar[str] = "careless"
    paper: ClassVar[str] = "none"
    keeps_label: ClassVar[bool] = True

    def offers(self, before: Need) -> Need:
        return before | Need.PROBABILITIES

    def change(self, answers: np.ndarray, x: np.ndarray, key: int) -> np.ndarray:
        del x, key
        return np.random.default_rng().permuted(answers, axis=1)


@dataclass(frozen=True)
class Writing(Careless):
    def change(self, answers: np.ndarray, x: np.ndarray, key: int) -> np.ndarray:
        del x, key
        answers += 0.1
        return answers


@pytest.mark.parametrize(
    ("bad", "prove"),
    [
        (Careless(), table.keeps_the_label_where_promised),
        (Careless(), table.repeats_itself_whenever_a_record_comes),
        (Careless(), table.has_settings_that_json_can_hold),
        (Careless(), table.promises_no_more_than_there_was),
        (Careless(), table.names_its_paper),
        (Writing(), table.gives_distributions),
    ],
)
def test_a_careless_defence_fails_the_table(bad: Careless, prove: table.Property) -> None:
    with pytest.raises((AssertionError, ValueError, SpecError)):
        prove(bad)


def test_rounding_is_on_its_grid() -> None:
    before = np.array([[0.64, 0.05, 0.31], [1 / 3, 1 / 3, 1 / 3]])
    after = Rounding(1).change(before, before, 0)
    np.testing.assert_array_equal(after, [[0.7, 0.0, 0.3], [0.4, 0.3, 0.3]])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_a_temperature_is_that_of_the_logits(temperature: float) -> None:
    logits = RNG.normal(size=(500, 6))
    before = to_probabilities(logits, "logits", 500)
    expected = to_probabilities(logits / temperature, "logits", 500)
    after = Temperature(temperature).change(before, table.X, 0)
    np.testing.assert_allclose(after, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", get_args(NoiseKind))
@pytest.mark.parametrize("distortion", [0.01, 0.5, 2.0])
def test_noise_is_bounded_and_differs_by_record_and_model(
    distortion: float, kind: NoiseKind
) -> None:
    before = np.repeat(table.ANSWERS[1][:1], 500, axis=0)
    noise = AnswerNoise(distortion, kind)
    after = noise.change(before, table.X, 0)
    distance = np.abs(after - before).sum(axis=1)
    assert distance.max() <= distortion * (1 + 1e-9)
    whole = np.abs(AnswerNoise(2.0, kind).change(before, table.X, 0) - before).sum(axis=1)
    np.testing.assert_allclose(distance, np.minimum(whole, distortion))  # all that it may
    assert distance.min() > 0
    assert len(np.unique(after, axis=0)) == 500
    assert (noise.change(before, table.X, 1) != after).any(axis=1).all()


@pytest.mark.parametrize("kind", get_args(NoiseKind))
def test_noise_is_spread_evenly_over_all_distributions(kind: NoiseKind) -> None:
    """Four times the least of four such shares has a beta distribution with 1 and 3.

    The least share stays where it is when the largest one changes places with the label's.
    """
    sure = np.tile(np.eye(4)[0], (500, 1))
    least = AnswerNoise(2.0, kind).change(sure, table.X, 5).min(axis=1)
    assert stats.kstest(4 * least, stats.beta(1, 3).cdf).pvalue > 0.01  # the key is fixed


def test_a_model_without_a_key_gets_one_that_nobody_knows() -> None:
    model = FunctionTarget(lambda x: np.full((len(x), 3), [0.5, 0.3, 0.2]))
    defence = AnswerNoise(noise="secure")
    one, other = (DefendedTarget(model, defence).predict(table.X) for _ in range(2))
    assert (one != other).any(axis=1).all()
    kept = DefendedTarget(model, defence, key=2**127 + 1)
    np.testing.assert_array_equal(kept.predict(table.X), kept.predict(table.X))


def test_whole_noise_tells_nothing_but_the_label() -> None:
    label = RNG.integers(0, 4, 500)
    sure = np.eye(4)[label]
    unsure = 0.9 * np.full((500, 4), 0.25) + 0.1 * sure
    noise = AnswerNoise(2.0)
    np.testing.assert_allclose(
        noise.change(sure, table.X, 3), noise.change(unsure, table.X, 3), atol=1e-12
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Rounding(0),
        lambda: Rounding(10),
        lambda: Temperature(0.0),
        lambda: Temperature(float("inf")),
        lambda: AnswerNoise(0.0),
        lambda: AnswerNoise(2.1),
        lambda: catalog.answer_defence("answer-noise", noise="sekure"),
        lambda: catalog.answer_defence("round"),
        lambda: catalog.answer_defence("top-1", digits=1),
    ],
)
def test_wrong_settings_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(SpecError, match="expected"):
        wrong()


def test_each_is_listed_as_no_defence_against_labels() -> None:
    lines = dict(listing.lines("defences"))
    for name in catalog.ANSWER_DEFENCES:
        assert catalog.answer_defence_class(name).keeps_label
        assert "attacks" in lines[name]
        assert "labels" in lines[name]


RECORDS = memorising.draw(600)
MEMBERS, NONMEMBERS = RECORDS.take(np.arange(300)), RECORDS.take(np.arange(300, 600))
MODEL = memorising.train(MEMBERS.x, MEMBERS.y, 0)


def audited(answers: AnswerDefence | None, *attacks: str) -> tuple[Finding, ...]:
    found = divulge.audit(
        MODEL,
        members=MEMBERS,
        nonmembers=NONMEMBERS,
        access=divulge.Access(answers=answers),
        shadows=divulge.ShadowModels(8, train=memorising.train),
        attacks=[attacks_catalog.attack(name) for name in attacks],
    )
    return found.findings


def test_in_an_audit_the_label_still_tells_members_apart() -> None:
    plain = audited(None, "gap", "threshold", "lira")
    bare = audited(TopOne(), "gap", "threshold", "lira")
    assert [f.status.value for f in plain] == ["done"] * 3
    assert [f.status.value for f in bare] == ["done", "not applicable", "not applicable"]
    assert plain[0].metrics == bare[0].metrics
    assert bare[0].metrics["auc"].value == golden(0.6017)


def test_shadows_answer_behind_the_same_defence() -> None:
    """A temperature is undone by whoever trains shadows behind it: LiRA does not notice it."""
    (plain,), (soft,) = audited(None, "lira"), audited(Temperature(3.0), "lira")
    assert plain.metrics["auc"].value == golden(0.8459)
    assert soft.metrics["auc"].value == pytest.approx(plain.metrics["auc"].value, abs=0.03)


def test_models_in_turn_answer_behind_it_too() -> None:
    found = divulge.leave_one_out(
        memorising.train,
        records=RECORDS,
        rotation=divulge.Rotation(3),
        access=divulge.Access(answers=TopOne()),
        attacks=[attacks_catalog.attack("gap"), attacks_catalog.attack("calibrated")],
    )
    gap, calibrated = found.findings
    assert gap.metrics["auc"].value == golden(0.5998)
    assert calibrated.status == "not applicable"


SETTINGS = """
[target]
model = "subject.py:model"
answers = {name = "rounding", digits = 1}
[data]
members = "subject.py:members"
nonmembers = "subject.py:nonmembers"
[[attacks]]
name = "threshold"
"""

SUBJECT = """
import numpy as np
rng = np.random.default_rng(0)
x, y = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
members, nonmembers = (x[:200], y[:200]), (x[200:], y[200:])

def model(asked):
    p = 1 / (1 + np.exp(-asked[:, 0]))
    return np.stack([1 - p, p], axis=1)
"""


def test_settings_in_a_file_put_it_before_the_model(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(SUBJECT)
    (tmp_path / "audit.toml").write_text(SETTINGS)
    found = audit_model(tmp_path / "audit.toml")
    score = found.contents.entries[0].score
    assert score is not None
    assert len(np.unique(score)) <= 11
    (tmp_path / "audit.toml").write_text(SETTINGS.replace("rounding", "rounded"))
    with pytest.raises(SpecError, match="did you mean 'rounding'"):
        audit_model(tmp_path / "audit.toml")
