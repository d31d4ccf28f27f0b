"""Chains: order, what they refuse, and what they promise."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from divulge.core import ClientContext, RoundContext, ServerView, Update, UpdateDefence, UpdateSum
from divulge.defences.updates.compose import chain, no_defence
from divulge.defences.updates.compression import Sign, TopK
from divulge.defences.updates.local_dp import LocalNoise
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import SpecError

from . import rounds, table

NOISE = LocalNoise(1.0, 1e-5, 1.0)


@dataclass(frozen=True)
class Noting(UpdateDefence):
    """Writes down when it was called."""

    name: str = "first"  # type: ignore[misc]
    notes: list[str] = field(default_factory=list)

    def on_client(self, update: Update, context: ClientContext) -> Update:
        del context
        self.notes.append(f"{self.name} on client")
        return update

    def on_server(self, view: ServerView, context: RoundContext) -> ServerView:
        del context
        self.notes.append(f"{self.name} on server")
        return view


def test_client_hooks_run_in_order_and_server_hooks_in_reverse() -> None:
    notes: list[str] = []
    rounds.play(chain(Noting("first", notes), Noting("second", notes)), {0: rounds.update(0)})
    assert notes == [f"{who} on client" for who in ("first", "second")] + [
        f"{who} on server" for who in ("second", "first")
    ]


def test_a_chain_is_its_parts_one_after_the_other() -> None:
    update = rounds.update(3)
    both = chain(TopK(0.3), Sign())
    context = rounds.begin(both)[0]
    by_hand = Sign().on_client(TopK(0.3).on_client(update, context), context)
    table.assert_same({0: by_hand}, {0: both.on_client(update, context)})


def test_none_and_nested_chains_disappear() -> None:
    assert chain() == no_defence() == chain(no_defence(), no_defence())
    assert chain(no_defence(), NOISE) == NOISE
    nested = chain(chain(TopK(), NOISE), no_defence(), chain(SecureSum()))
    assert nested == chain(TopK(), NOISE, SecureSum())
    assert nested.masks
    assert not chain(TopK(), NOISE).masks


@pytest.mark.parametrize("after", [NOISE, TopK(), Sign()], ids=lambda defence: defence.name)
def test_nothing_can_follow_masks(after: UpdateDefence) -> None:
    with pytest.raises(SpecError, match=f"put {after.name} before secure-sum"):
        chain(SecureSum(), after)


@pytest.mark.parametrize("defence", [NOISE, SecureSum(), TopK()], ids=lambda d: d.name)
def test_a_defence_stands_once(defence: UpdateDefence) -> None:
    with pytest.raises(SpecError, match=f"got {defence.name} 2 times"):
        chain(defence, defence)


def test_a_chain_promises_what_its_noise_promises() -> None:
    assert chain(TopK(), NOISE, SecureSum()).guarantee(7) == NOISE.guarantee(7)
    assert chain(TopK(), SecureSum()).guarantee() is None


def test_the_sum_of_noisy_updates_is_the_sum_of_what_each_would_have_sent() -> None:
    updates = {client: rounds.update(client) for client in range(5)}
    plain = rounds.play(NOISE, updates)
    summed = rounds.play(chain(NOISE, SecureSum()), updates)
    assert isinstance(summed, UpdateSum)
    sent = table.seen(plain)
    for name, value in summed.total.items():
        # Each of the five is rounded to a multiple of 2^-32.
        np.testing.assert_allclose(
            value, sum(sent[c][name].astype(np.float64) for c in sent), rtol=0, atol=5 * 2.0**-33
        )
