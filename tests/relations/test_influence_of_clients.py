"""What one client adds to a round before the noise: at most what the noise is made for.

As in `tests/relations/test_influence_of_records.py`, the source of noise keeps what it gets and
adds nothing. ``secure-sum`` adds no noise; its bound is the range that entries are held to.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from divulge._util.norms import euclidean_norm
from divulge.core import Update, UpdateDefence, UpdateSum
from divulge.defences.updates import dp_fedavg, protocol
from divulge.defences.updates.compose import chain
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.local_dp import LocalNoise
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError
from tests.defences.rounds import ENTRIES, SHAPES, RecordedNoise, alike, vector

ULP = 2.0**-52

SIGMA, EPSILON, DELTA = 3.0, 0.5, 1e-5

ACCOUNTED = 7.0318266755825
"""The deviation for a sensitivity of 1 at this ε and δ, by dp-accounting 0.6.0."""

sizes = st.one_of(
    st.builds(lambda sign, size: sign * 10.0**size, st.sampled_from([-1, 1]), st.floats(-320, 308)),
    st.builds(lambda sign, size: sign * 10.0**size, st.sampled_from([-1, 1]), st.floats(-46, 38.5)),
    st.floats(-10, 10),
    st.sampled_from([0.0, 3e38, -3e38, 1e20, 1e-30, 5e-324, math.nan, math.inf, -math.inf]),
)
tensors = st.fixed_dictionaries({
    name: st.tuples(
        st.sampled_from([np.float16, np.float32, np.float64, np.longdouble]),
        st.lists(sizes, min_size=math.prod(shape), max_size=math.prod(shape)),
    )
    for name, shape in SHAPES.items()
})  # fmt: skip


def as_update(drawn: Mapping[str, tuple[Any, list[float]]]) -> Update:
    with np.errstate(over="ignore", under="ignore"):
        return {
            name: np.array(values, dtype).reshape(SHAPES[name])
            for name, (dtype, values) in drawn.items()
        }


updates = st.builds(as_update, tensors)


def silent(update: Update) -> Update:
    return {name: np.zeros_like(value) for name, value in update.items()}


@dataclass(frozen=True)
class Mechanism:
    """A defence of clients, and what it promises by."""

    defence: Callable[[float], UpdateDefence]
    """From the clip."""
    moves: Callable[[int], float]
    """From how many clients there are: by how many clips one of them moves what noise is added to.
    """
    noise: Callable[[int], float]
    """Likewise, the scale of the noise, in units of that bound."""
    any_other: bool = False
    """Whether neighbours send any other update, not zeros alone."""
    order: int = 2
    """Of the norm."""
    by_server: bool = False
    steps: float = 0.0
    """What the fixed point of a secure sum takes off an entry."""


def local(defence: Callable[[float], UpdateDefence], noise: float, order: int = 2) -> Mechanism:
    return Mechanism(defence, lambda _: 2.0, lambda _: noise, any_other=True, order=order)


def central(defence: Callable[[float], UpdateDefence], steps: float = 0.0) -> Mechanism:
    return Mechanism(defence, lambda n: 1 / n, lambda _: SIGMA, by_server=True, steps=steps)


MECHANISMS: Mapping[str, Mechanism] = {
    "dp-fedavg": central(lambda clip: DPFedAvg(SIGMA, clip, DELTA)),
    "dp-fedavg behind a secure sum": central(
        lambda clip: chain(DPFedAvg(SIGMA, clip, DELTA), SecureSum()), 2.0**-32
    ),
    "dp-fedavg by clients": Mechanism(
        lambda clip: chain(DPFedAvg(SIGMA, clip, DELTA, "clients"), SecureSum()),
        lambda _: 1.0,
        lambda n: SIGMA / math.sqrt(n),
    ),
    "local noise": local(
        lambda clip: LocalNoise(EPSILON, DELTA, clip),
        ACCOUNTED,
    ),
    "local noise by the classic formula": local(
        lambda clip: LocalNoise(EPSILON, DELTA, clip, "gaussian"),
        math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON,
    ),
    "local Laplace noise": local(
        lambda clip: LocalNoise(EPSILON, 0.0, clip, "laplace"), 1 / EPSILON, order=1
    ),
}


def hand(how: Mechanism, clip: float, sent: list[Update]) -> RecordedNoise:
    """What the source of noise gets that covers the first client, in a round of these updates."""
    defence, server = how.defence(clip), RecordedNoise()
    own = [RecordedNoise() for _ in sent]
    shares = dict.fromkeys(range(len(sent)), 1.0)
    contexts = protocol.begin_round(defence, 0, sent[0], shares, 0)
    messages = [
        protocol.send(defence, update, replace(contexts[k], noise=own[k]))
        for k, update in enumerate(sent)
    ]
    view = protocol.receive(defence, messages, replace(contexts[0].round, noise=server))
    published = [view.total] if isinstance(view, UpdateSum) else view.by_client.values()
    assert all(np.isfinite(vector(one)).all() for one in published)
    return server if how.by_server else own[0]


@settings(max_examples=120)
@given(
    st.sampled_from(sorted(MECHANISMS)),
    st.lists(updates, min_size=2, max_size=5),
    updates,
    st.floats(-3, 1).map(lambda power: 10.0**power),
)
@example("dp-fedavg", [alike(3e38)] * 4, alike(0.0), 1.0)
@example("dp-fedavg behind a secure sum", [alike(1e-30, float)] * 4, alike(0.0), 1e-3)
@example("dp-fedavg by clients", [alike(math.nan)] * 4, alike(0.0), 1.0)
@example("dp-fedavg by clients", [alike(6e4, np.float16)] * 4, alike(0.0), 10.0)
@example("dp-fedavg", [alike(7.0)], alike(0.0), 1.0)
@example("local noise", [alike(1e-30)], alike(3e38), 1.0)
@example("local noise", [alike(1e200, float)] * 4, alike(-1e200, float), 1.0)
@example("local Laplace noise", [alike(math.inf)] * 4, alike(-3e38), 1.0)
def test_a_client_moves_what_noise_is_added_to_by_what_the_noise_is_made_for(
    name: str, sent: list[Update], other: Update, clip: float
) -> None:
    how = MECHANISMS[name]
    here = hand(how, clip, sent)
    there = hand(how, clip, [other if how.any_other else silent(sent[0]), *sent[1:]])
    moves, noise = how.moves(len(sent)), how.noise(len(sent))
    bound = moves * clip
    law = "laplace" if how.order == 1 else "normal"
    assert here.laws == there.laws == [law]
    # the accountant's scale, which is approached to 1e-12 of a bound of 1; others are exact
    exact = 1e-9 if name == "local noise" else 4 * ULP
    assert here.scales == there.scales == pytest.approx([noise * bound], rel=exact)
    (one,), (two,) = here.values, there.values
    # sums in float64 of entries of a clip at most, and of what a fixed point takes off
    rounding = 20 * len(sent) * math.sqrt(ENTRIES) * clip * ULP + ENTRIES * how.steps
    moved = float(np.linalg.norm(one - two, ord=how.order))
    assert moved <= bound + rounding
    if not how.any_other:  # what is shorter than the clip arrives, but for the rounding of types
        own = vector(sent[0]) if np.isfinite(vector(sent[0])).all() else np.zeros(ENTRIES)
        whole = min(float(euclidean_norm(own)), clip) * moves
        narrow = math.sqrt(ENTRIES) * (2.0**-24 * moves + how.steps)  # half precision at zero
        assert moved >= whole * (1 - 2.0**-10) - narrow - rounding


def test_clipping_by_squares_in_single_precision_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault that these tests are for: 1e-30 squared is 0, and 1e20 squared is infinite."""

    def naive(values: np.ndarray, clip: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            norm = np.sqrt((values.astype(np.float32) ** 2).sum())
            return np.asarray(values * min(1.0, clip / max(float(norm), 1e-300)))

    def move() -> float:
        others, how = [alike(0.0)] * 3, MECHANISMS["dp-fedavg"]
        totals = [hand(how, 1e-32, [alike(size), *others]).values[0] for size in (1e-30, 0.0)]
        return float(euclidean_norm(totals[0] - totals[1]))

    assert move() <= 1e-32 / 4 * (1 + 1e-6)
    monkeypatch.setattr(dp_fedavg, "clip_to_norm", naive)
    assert move() > 100 * 1e-32 / 4


@given(updates, st.floats(-3, 3).map(lambda power: 10.0**power))
@example(alike(1e20), 1.0)
@example(alike(1e-30), 1.0)
def test_a_secure_sum_moves_by_the_update_itself_or_refuses_it(
    update: Update, limit: float
) -> None:
    """Rounded to half a step; what does not fit is refused, and not wrapped round."""
    defence, own = SecureSum(limit, 20), vector(update)
    if not np.abs(own).max() <= limit:
        with pytest.raises(DataError, match=r"finite|entries up to"):
            defence.encode(update)
        return
    moved = np.ldexp(defence.encode(update).view(np.int64), -20)
    assert np.abs(moved - own).max() <= defence.step / 2
    assert np.abs(moved).max() <= limit + defence.step / 2
