import numpy as np
import pytest

from divulge.checks import class_mix, question, records
from divulge.checks import model as of_model
from divulge.checks.duplicates import Copies, PoolCopies
from divulge.core import Check, Records, Verdict
from divulge.errors import DataError


def subject(seed: int = 0, shift: float = 0.0, n: int = 400) -> question.CheckInputs:
    rng = np.random.default_rng(seed)
    member = rng.permutation(n) < n // 2
    x = rng.normal(size=(n, 6)) + shift * member[:, None]
    y = rng.integers(0, 3, n)
    answers = rng.dirichlet(np.ones(3), n)
    none = Copies(0, 0, 0, 0, (0, 0, 0))
    return question.CheckInputs(
        Records(x, y), member, None, question.SeenAnswers.of(answers), features=True, copies=none
    )


def verdicts(found: tuple[Check, ...]) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in found}


def test_sound_data_passes_every_check() -> None:
    plain = subject()
    found = records.check_records(
        plain._replace(
            again=question.SecondPredictions(np.arange(9), plain.answers.read(np.arange(9)))
        )
    )
    assert set(verdicts(found).values()) == {Verdict.PASS}


def test_copies_in_a_pool_are_said_and_no_warning() -> None:
    check = records.check_copies(subject()._replace(copies=PoolCopies(208, 48, 60, 3, 2)))
    assert check.verdict is Verdict.PASS
    assert check.text == (
        "Of the 208 records given, 48 repeat an earlier one, and were set aside before membership "
        "was drawn. Of the 60 reference records, 3 are exact copies of candidates, and were set "
        "aside. Within the reference, 2 repeat another one."
    )
    none = records.check_copies(subject()._replace(copies=PoolCopies(160, 0, 60, 0, 0)))
    assert none.text == "No record stands twice among the candidates and the reference."


def test_copies_that_were_set_aside_are_said_and_no_warning() -> None:
    copies = Copies(2, 3, 4, 5, (6, 0, 0))
    check = records.check_copies(subject()._replace(copies=copies))
    assert check.verdict is Verdict.PASS
    assert "2 members and 3 non-members are exact copies of each other and were set aside" in (
        check.text
    )
    assert "9 reference records are exact copies of candidates (4 of members, 5 of" in check.text
    assert "6 members, 0 non-members and 0 reference records repeat another one" in check.text


def test_a_model_that_answers_otherwise_when_asked_again_is_reported() -> None:
    plain, rows = subject(), np.array([3, 5, 8])
    same = of_model.check_repeatability(
        plain._replace(again=question.SecondPredictions(rows, plain.answers.read(rows)))
    )
    assert same.verdict is Verdict.PASS
    rounded = plain.answers.read(rows) + 1e-6
    check = of_model.check_repeatability(
        plain._replace(again=question.SecondPredictions(rows, rounded))
    )
    assert check.verdict is Verdict.PASS
    other = plain.answers.read(rows)
    other[1] = np.roll(other[1], 1)
    check = of_model.check_repeatability(
        plain._replace(again=question.SecondPredictions(rows, other))
    )
    assert check.verdict is Verdict.WARNING
    assert "changed its answer about 1 of them" in check.text
    assert of_model.check_repeatability(plain).verdict is Verdict.NOT_APPLICABLE


def test_another_mix_of_classes_is_seen() -> None:
    plain = subject()
    y = np.where(plain.member, 0, plain.records.y)
    check = class_mix.check_class_shares(plain._replace(records=Records(plain.records.x, y)))
    assert check.verdict is Verdict.WARNING


def test_labels_in_another_order_are_suspected() -> None:
    plain = subject()
    answers = np.eye(3)[(plain.records.y + 1) % 3]
    check = of_model.check_accuracy(plain._replace(answers=question.SeenAnswers.of(answers)))
    assert check.verdict is Verdict.WARNING
    assert "another order" in check.text


def test_saturated_answers_are_reported() -> None:
    plain = subject()
    answers = plain.answers.read(np.arange(400)).copy()
    answers[:100] = np.eye(3)[0]
    assert (
        of_model.check_saturation(plain._replace(answers=question.SeenAnswers.of(answers))).verdict
        is Verdict.WARNING
    )
    labels = np.eye(3)[plain.records.y]
    assert (
        of_model.check_saturation(plain._replace(answers=question.SeenAnswers.of(labels))).verdict
        is Verdict.NOT_APPLICABLE
    )


def test_few_records_are_called_few() -> None:
    check = records.check_size(subject(n=60))
    assert check.verdict is Verdict.WARNING
    assert "30 members and 30 non-members" in check.text


def test_a_table_of_answers_has_no_features_to_check() -> None:
    found = verdicts(records.check_records(subject()._replace(features=False, copies=None)))
    assert found["blind baseline"] is found["duplicates"] is Verdict.NOT_APPLICABLE


def test_candidates_in_the_pool_of_the_shadows_are_counted() -> None:
    plain = subject()
    inside, outside = np.flatnonzero(plain.member), np.flatnonzero(~plain.member)
    other = subject(seed=1).records
    assert records.check_shadow_pool(plain, other).verdict is Verdict.PASS
    pool = other.joined(plain.records.take(np.concatenate([inside[:7], outside[:2]])))
    check = records.check_shadow_pool(plain, pool)
    assert check.verdict is Verdict.WARNING
    assert "7 of 200 members and 2 of 200 non-members" in check.text
    names = [check.name for check in records.check_records(plain._replace(pool=pool))]
    assert names.index("shadow pool") == names.index("duplicates") + 1
    with pytest.raises(DataError, match="prepare it in the same way"):
        records.check_shadow_pool(plain, Records(pool.x[:, :3], pool.y))


def test_people_with_as_many_records_each_differ_in_nothing() -> None:
    group = np.repeat(np.arange(20), 3)
    plain = Records(np.arange(60.0)[:, None], np.zeros(60, np.int64), group=group)
    asked = subject(n=60)._replace(records=plain, member=group < 10)
    (check,) = records.check_records_each(asked)
    assert check.verdict is Verdict.PASS
    assert "(3 and 3 on average, p = 1)" in check.text
