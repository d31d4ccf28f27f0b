"""Near copies in one set: they are seen, one of each is compared, and other differences are not."""

import re
from unittest import mock

import numpy as np
import pytest

from divulge.checks import blind_baseline, near_copies, question, records
from divulge.checks.duplicates import Copies
from divulge.core import Check, Records, Verdict
from divulge.report import doubts


def draw(
    seed: int, each: int, noise: float = 0.1, columns: int = 6, size: int = 200
) -> tuple[Records, np.ndarray]:
    """One population in groups of near copies, half of the groups in each set."""
    rng = np.random.default_rng([seed, each, columns])
    centre = rng.normal(size=(2 * size // each, columns))
    x = np.repeat(centre, each, axis=0)
    x += noise * rng.normal(size=x.shape)
    y = np.repeat(rng.integers(0, 2, len(centre)), each)
    return Records(x, y), np.arange(len(x)) < size


def clumps_of(data: Records, member: np.ndarray) -> near_copies.Clumps:
    order = np.random.default_rng(0).permutation(len(data))
    return near_copies.find_clumps(data.features()[order], member[order])


def warns(data: Records, member: np.ndarray) -> bool:
    sets = data.take(member), data.take(~member)
    found = blind_baseline.separate(*sets, np.random.default_rng(0))
    assert found is not None
    return found.p_value <= blind_baseline.FALSE_ALARM


@pytest.mark.parametrize(("each", "columns"), [(2, 6), (3, 100)])
def test_near_copies_in_one_set_are_no_other_population(each: int, columns: int) -> None:
    drawn = [draw(seed, each, columns=columns) for seed in range(4)]
    with mock.patch.object(near_copies, "keep_one_of_each", lambda c, _: np.arange(len(c.equal))):
        assert all(warns(*one) for one in drawn)  # trees recognise the others
    assert not any(warns(*one) for one in drawn)


@pytest.mark.parametrize("each", [2, 3, 5, 10])
def test_near_copies_are_counted(each: int) -> None:
    found = clumps_of(*draw(0, each, noise=0.02))
    assert each - 1 <= found.reach <= 2 * each
    assert found.copies == pytest.approx(each - 1, rel=0.25)
    kept = near_copies.keep_one_of_each(found, np.random.default_rng(0))
    assert len(kept) <= 400 / each
    linked = found.neighbours[kept][:, : found.reach]
    assert not np.isin(linked, kept).any()


def test_of_linked_records_one_stands_for_the_others_whatever_the_links() -> None:
    rng = np.random.default_rng(0)
    for many in np.repeat([2, 5, 12], 10):
        neighbours = (np.arange(many)[:, None] + rng.integers(1, many, (many, 3))) % many
        equal = rng.random((many, 3)) < 0.3
        clumps = near_copies.Clumps(0, 0.0, 0.0, 0.0, neighbours, equal)
        group = near_copies.group_near_copies(clumps, rng)
        assert np.array_equal(group[group], group)
        linked = {tuple(sorted((k, int(neighbours[k, rank])))) for k, rank in np.argwhere(equal)}
        chosen = {int(k) for k in group}
        assert not any(chosen.issuperset(pair) for pair in linked)
        assert all((min(k, g), max(k, g)) in linked for k, g in enumerate(group) if k != g)


def test_near_copies_of_both_sets_alike_leave_the_test_as_it_is() -> None:
    for seed in range(5):
        data, member = draw(seed, 3)
        found = clumps_of(data, np.random.default_rng(seed).permutation(member))
        assert found.reach == 0
        assert abs(found.copies) < 0.42


@pytest.mark.parametrize("columns", [1, 2, 12, 40])
@pytest.mark.parametrize(("shift", "scale"), [(0.5, 1.0), (2.0, 1.0), (0.0, 1.3), (0.0, 2.0)])
def test_other_populations_are_no_near_copies(columns: int, shift: float, scale: float) -> None:
    data, member = draw(0, 1, columns=columns)
    x = np.where(member[:, None], data.x, data.x * scale + shift)
    assert clumps_of(Records(x, data.y), member).reach == 0


def test_equal_distances_are_no_near_copies() -> None:
    """Neighbours that tie are taken by position: sets in order would look like clumps."""
    bits = np.random.default_rng(0).integers(0, 2, (400, 12))
    assert clumps_of(Records(bits, np.zeros(400, int)), np.arange(400) < 200).reach == 0


def test_exact_copies_are_compared_once() -> None:
    data, member = draw(0, 1)
    twice = np.repeat(np.arange(400), 2)
    found = clumps_of(data.take(twice), np.random.default_rng(0).permutation(member[twice]))
    assert found.reach == 0
    assert len(near_copies.keep_one_of_each(found, np.random.default_rng(0))) == 400


def checked(data: Records, member: np.ndarray) -> dict[str, Check]:
    answers = np.random.default_rng(1).dirichlet([1, 1], len(data))
    none = Copies(0, 0, 0, 0, (0, 0, 0))
    subject = question.CheckInputs(
        data, member, None, question.SeenAnswers.of(answers), features=True, copies=none
    )
    return {check.name: check for check in records.check_records(subject)}


def test_near_copies_make_the_inputs_doubtful() -> None:
    check = checked(*draw(0, 3))["repeated rows"]
    assert check.verdict is Verdict.WARNING
    assert re.match(r"A record has about (1\.9|2\.0) near copies more in its own set", check.text)
    assert "too small by a factor of about 1.7" in check.text
    data, member = draw(0, 3)
    apart = Records(np.where(member[:, None], data.x, data.x + 2), data.y)
    found = checked(apart, member)  # whatever neighbours agree in then is that difference too
    assert found["blind baseline"].verdict is Verdict.WARNING
    assert "repeated rows" not in found


@pytest.mark.parametrize("columns", [2, 6, 40])
@pytest.mark.parametrize("copied", [80, 200])
def test_records_in_both_sets_make_the_inputs_doubtful(columns: int, copied: int) -> None:
    """Written again by another program, they are no exact copies; the model has seen them."""
    data, member = draw(0, 1, columns=columns)
    x = data.x.copy()
    x[200 : 200 + copied] = x[:copied].astype(np.float32)
    check = checked(Records(x, data.y), member)["records in two sets"]
    assert check.verdict is Verdict.WARNING
    doubt = doubts.find_doubt([check], leaks=True, trained=False)
    assert doubt is not None
    assert doubt.wording.level == "inputs doubtful"
    assert "records in two sets" not in checked(data, member)


@pytest.mark.parametrize("known", ["members", "non-members"])
def test_candidates_in_the_reference_make_the_inputs_doubtful(known: str) -> None:
    """An attack that compares them with the reference would be told who they are."""
    data, member = draw(0, 1)
    sets = data.take(member), data.take(~member)
    copied = sets[known == "non-members"]
    changed = Records(copied.x.astype(np.float32).astype(float), copied.y)
    shared = blind_baseline.check_separation(*sets, changed)[-1]
    assert shared.name == "records in two sets"
    assert f"are {known}, far more often" in shared.text
    apart = blind_baseline.check_separation(*sets, draw(1, 1)[0])[-1]
    assert apart.name == "reference baseline"


def test_sets_drawn_at_random_are_rarely_taken_for_each_other() -> None:
    """One of 2,000 draws from one population is beyond 3.3 standard deviations; here none is."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        which = rng.permutation(400) < 200
        clusters = rng.normal(size=(20, 5))[rng.integers(0, 20, 400)]
        for x in (clusters + 0.05 * rng.normal(size=(400, 5)), rng.integers(0, 2, (400, 12))):
            assert near_copies.find_clumps(x.astype(float), which).apart < near_copies.SEEN


def test_few_and_many_candidates_are_not_searched_for_near_copies() -> None:
    assert "repeated rows" not in checked(*draw(0, 3, size=60))
    data, member = draw(0, 3, size=3000)  # neighbours of some are looked at, among all
    assert near_copies.check_near_copies(data.features(), member) is not None
    with mock.patch.object(near_copies, "CANDIDATES", 300):
        assert "repeated rows" not in checked(*draw(0, 3))
