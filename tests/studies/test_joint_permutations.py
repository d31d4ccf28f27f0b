"""Which attacks are scored again for permuted memberships, and by which members."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from divulge._util.random import stream
from divulge.core import ModelView, Need, Scores
from divulge.metrics.joint_test import add_deviations
from divulge.studies.leave_one_out import joint
from divulge.testing import forests

MODELS, TARGETS, RECORDS = 5, 2, 40


@dataclass(frozen=True)
class Asked:
    """An attack that notes the shadows that it sees."""

    name: str
    needs: Need
    seen: list[np.ndarray] = field(default_factory=list, compare=False, repr=False)
    paper: ClassVar[str] = "none, 2026"

    def __call__(self, view: ModelView, rng: np.random.Generator) -> Scores:
        del rng
        assert view.shadows is not None
        self.seen.append(view.shadows.member)
        return Scores(view.shadows.member.sum(axis=1) * 1.0)


@pytest.fixture
def views() -> list[ModelView]:
    view = forests.part(forests.leaky().view, np.arange(RECORDS))
    assert view.shadows is not None
    phi = view.shadows.phi[:, : MODELS - 1]
    kept = view.shadows.reference_phi[:, : MODELS - 1]
    few = replace(view.shadows, phi=phi, member=phi > 0, reference_phi=kept, softened=())
    return [replace(view, shadows=few, conditional=None)] * TARGETS


@pytest.mark.parametrize("people", [False, True])
def test_memberships_are_permuted_together_and_only_what_is_fast_is_scored_again(
    views: list[ModelView], people: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint, "DRAWS", 3)
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(RECORDS // 2), 2) if people else None
    units = RECORDS // 2 if people else RECORDS
    drawn_as = rng.random((MODELS, units)) < 0.5
    member = np.repeat(drawn_as, 2, axis=1) if people else drawn_as
    fast, slow = Asked("calibrated", Need.SHADOWS), Asked("slow", Need.SHADOWS)
    plain, failed = Asked("plain", Need.NONE), Asked("plain", Need.NONE)
    lost = Asked("calibrated", Need.SHADOWS)
    scores = [rng.normal(size=units) for _ in range(TARGETS)]
    others = [[k for k in range(MODELS) if k != target] for target in range(TARGETS)]
    if people:  # this attack scores records; those of people are not made here
        fast = slow
    drawn = joint.permute_together(
        [fast, slow, plain, failed, lost], [scores, scores, scores, None, None],
        views, others, member, 0, person,
    )  # fmt: skip
    assert drawn is not None
    assert drawn.shape[2] == 3
    again = np.isnan(drawn).all(axis=(1, 2)).tolist()
    assert again == [people, True, False, True, True]
    assert not slow.seen
    assert not lost.seen  # it did not end well on each target
    shuffle = stream(0, "joint permutations")
    for draw in range(3):
        order = shuffle.permutation(units)
        shuffled = drawn_as[:, order]
        expected = add_deviations(scores, list(shuffled[:TARGETS]))
        np.testing.assert_allclose(drawn[2, :, draw], expected)
        by_record = np.repeat(shuffled, 2, axis=1) if people else shuffled
        for k in range(0 if people else TARGETS):
            np.testing.assert_array_equal(fast.seen[2 * draw + k], by_record[others[k]].T)


def test_too_many_records_and_models_are_left(
    views: list[ModelView], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint, "DRAWS", 2)
    member = np.random.default_rng(0).random((MODELS, RECORDS)) < 0.5
    for largest, done in (
        (MODELS * RECORDS * TARGETS, True),
        (MODELS * RECORDS * TARGETS - 1, False),
    ):
        monkeypatch.setattr(joint, "LARGEST", largest)
        found = joint.permute_together(
            [Asked("plain", Need.NONE)], [[np.arange(1.0 * RECORDS)] * TARGETS],
            views, [[1, 2, 3, 4], [0, 2, 3, 4]], member, 0,
        )  # fmt: skip
        assert (found is not None) == done
