import numpy as np
import pytest

from divulge.core import Check, Records, Verdict
from divulge.data import checks
from divulge.errors import DataError


def subject(seed: int = 0, shift: float = 0.0, n: int = 400) -> checks.Subject:
    rng = np.random.default_rng(seed)
    member = rng.permutation(n) < n // 2
    x = rng.normal(size=(n, 6)) + shift * member[:, None]
    y = rng.integers(0, 3, n)
    answers = rng.dirichlet(np.ones(3), n)
    return checks.Subject(Records(x, y), member, None, answers, features=True)


def verdicts(found: tuple[Check, ...]) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in found}


def test_sound_data_passes_every_check() -> None:
    assert set(verdicts(checks.check(subject())).values()) == {Verdict.PASS}


def test_two_populations_are_told_apart_without_the_model() -> None:
    check = checks.blind_baseline(subject(shift=0.5))
    assert check.verdict is Verdict.WARNING
    assert check.estimates["auc"].low > 0.6


def test_the_blind_baseline_seldom_cries_wolf() -> None:
    warned = [checks.blind_baseline(subject(seed)).verdict is Verdict.WARNING for seed in range(60)]
    assert sum(warned) <= 3  # at 99 % confidence, more than 3 in 60 happen 2 times in 10,000


def test_images_are_reduced_first() -> None:
    plain = subject()
    wide = np.random.default_rng(0).normal(size=(400, 8, 8, 3))
    check = checks.blind_baseline(plain._replace(records=Records(wide, plain.records.y)))
    assert check.verdict is Verdict.PASS


def test_copies_of_members_among_the_others_are_counted() -> None:
    plain = subject()
    x = plain.records.x.copy()
    inside, outside = np.flatnonzero(plain.member), np.flatnonzero(~plain.member)
    x[outside[:5]] = x[inside[:5]]
    check = checks.duplicates(plain._replace(records=Records(x, plain.records.y)))
    assert check.verdict is Verdict.WARNING
    assert check.text.startswith("5 of 200 non-members")


def test_a_reference_record_that_is_a_member_is_no_reference() -> None:
    plain = subject()
    reference = plain.records.take(np.flatnonzero(plain.member)[:3])
    check = checks.duplicates(plain._replace(reference=reference))
    assert check.verdict is Verdict.WARNING
    assert "3 of 3 reference records" in check.text


def test_members_that_are_the_non_members_are_refused() -> None:
    records = subject().records
    member = np.arange(800) < 400
    both = checks.Subject(records.joined(records), member, None, np.full((800, 3), 1 / 3), True)
    with pytest.raises(DataError, match="all exact copies"):
        checks.duplicates(both)


def test_another_mix_of_classes_is_seen() -> None:
    plain = subject()
    y = np.where(plain.member, 0, plain.records.y)
    check = checks.class_mix(plain._replace(records=Records(plain.records.x, y)))
    assert check.verdict is Verdict.WARNING


def test_labels_in_another_order_are_suspected() -> None:
    plain = subject()
    answers = np.eye(3)[(plain.records.y + 1) % 3]
    check = checks.model_accuracy(plain._replace(answers=answers))
    assert check.verdict is Verdict.WARNING
    assert "another order" in check.text


def test_saturated_answers_are_reported() -> None:
    plain = subject()
    answers = plain.answers.copy()
    answers[:100] = np.eye(3)[0]
    assert checks.saturation(plain._replace(answers=answers)).verdict is Verdict.WARNING
    labels = np.eye(3)[plain.records.y]
    assert checks.saturation(plain._replace(answers=labels)).verdict is Verdict.NOT_APPLICABLE


def test_few_records_are_called_few() -> None:
    check = checks.size(subject(n=60))
    assert check.verdict is Verdict.WARNING
    assert "30 members and 30 non-members" in check.text


def test_a_table_of_answers_has_no_features_to_check() -> None:
    found = verdicts(checks.check(subject()._replace(features=False)))
    assert found["blind baseline"] is found["duplicates"] is Verdict.NOT_APPLICABLE


def test_candidates_in_the_pool_of_the_shadows_are_counted() -> None:
    plain = subject()
    inside, outside = np.flatnonzero(plain.member), np.flatnonzero(~plain.member)
    other = subject(seed=1).records
    assert checks.shadow_pool(plain, other).verdict is Verdict.PASS
    pool = other.joined(plain.records.take(np.concatenate([inside[:7], outside[:2]])))
    check = checks.shadow_pool(plain, pool)
    assert check.verdict is Verdict.WARNING
    assert "7 of 200 members and 2 of 200 non-members" in check.text
    names = [check.name for check in checks.check(plain._replace(pool=pool))]
    assert names.index("shadow pool") == names.index("duplicates") + 1
    with pytest.raises(DataError, match="prepare it in the same way"):
        checks.shadow_pool(plain, Records(pool.x[:, :3], pool.y))
