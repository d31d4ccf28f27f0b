"""The secure sum: exact for every set that completes, silent about each update, loud otherwise."""

import dataclasses
import itertools
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from divulge.core import ClientContext, Message, RoundContext, Update, UpdateSum
from divulge.defences.updates import protocol, secure_aggregation
from divulge.defences.updates.secure_aggregation import EXACT_BITS, OneTimeKey, SecureSum
from divulge.errors import DataError, MissingExtra, SpecError

from . import rounds

SUM = SecureSum()


def exact(updates: Mapping[int, Update], bits: int = 32) -> dict[str, np.ndarray]:
    """The sum of the rounded updates, in Python's integers of any length."""
    total = {}
    for name, first in next(iter(updates.values())).items():
        flat = [updates[client][name].ravel().tolist() for client in updates]
        sums = [sum(round(Fraction(x) * 2**bits) for x in entry) for entry in zip(*flat)]  # noqa: B905
        total[name] = np.array([float(Fraction(x, 2**bits)) for x in sums]).reshape(first.shape)
    return total


def assert_exact(updates: Mapping[int, Update], defence: SecureSum = SUM) -> None:
    view = rounds.play(defence, updates)
    assert isinstance(view, UpdateSum)
    assert view.clients == tuple(sorted(updates))
    for name, value in exact(updates, defence.fraction_bits).items():
        np.testing.assert_array_equal(view.total[name], value)


@given(st.data())
def test_the_sum_is_exact_for_any_updates_and_any_set_of_clients(data: st.DataObject) -> None:
    clients = data.draw(st.sets(st.integers(0, 10**6), min_size=2, max_size=6))
    entries = st.lists(st.floats(-1024, 1024), min_size=5, max_size=5)
    updates: dict[int, Update] = {}
    for client in clients:
        drawn = np.array(data.draw(entries))
        updates[client] = {"w": drawn[:4].reshape(2, 2), "b": drawn[4]}
    updates = {client: {n: np.asarray(v) for n, v in u.items()} for client, u in updates.items()}
    assert_exact(updates)


@pytest.mark.parametrize("many", range(2, 6))
def test_the_sum_is_exact_for_every_subset_that_runs_its_own_round(many: int) -> None:
    pool = {client: rounds.update(client, size=10) for client in range(5)}
    for chosen in itertools.combinations(pool, many):
        assert_exact({client: pool[client] for client in chosen})


def test_the_sum_is_exact_at_both_ends_of_the_range() -> None:
    defence = SecureSum(limit=2.0**20, fraction_bits=32)
    assert defence.most_clients == 2
    for value in (2.0**20, -(2.0**20)):
        assert_exact({client: {"w": np.full(3, value)} for client in range(2)}, defence)
    assert_exact({0: {"w": np.array([0.5, 1.5])}, 1: {"w": np.zeros(2)}}, SecureSum(8.0, 0))


def test_the_sum_is_weighted_on_the_clients() -> None:
    updates = {client: rounds.update(client) for client in range(3)}
    shares = {0: 0.5, 1: 0.3, 2: 0.2}
    contexts = protocol.begin_round(SUM, 1, rounds.WEIGHTS, shares, 0)
    sent = [protocol.send(SUM, updates[client], contexts[client]) for client in shares]
    view = protocol.receive(SUM, sent, contexts[0].round)
    assert isinstance(view, UpdateSum)
    weighted = {
        client: {n: np.asarray(v.astype(np.float64) * shares[client]) for n, v in each.items()}
        for client, each in updates.items()
    }
    for name, value in exact(weighted).items():
        np.testing.assert_array_equal(view.total[name], value)


def test_tensors_may_stand_in_any_order() -> None:
    updates = {0: rounds.update(0), 1: dict(reversed([*rounds.update(1).items()]))}
    assert_exact(updates)


# Privacy of a single message. Keys are fresh and cannot be seeded, so these tests would fail by
# chance alone once in a million runs of all of them together: 7 tests, 1e-6 / 7 each.
LEVEL = 1e-6 / 7
ROUNDS = 300
ZERO = {"w": np.zeros(16)}
LARGE = {"w": np.full(16, 1024.0)}


def masked(update: Update) -> np.ndarray:
    """What client 0 sends in many rounds with fresh keys."""
    sent = []
    for number in range(ROUNDS):
        contexts = rounds.begin(SUM, clients=2, number=number, like=update)
        sent.append(SUM.on_client(update, contexts[number % 2])["w"])
    return np.concatenate(sent)


def encoded_only(update: Update) -> np.ndarray:
    return np.tile(SUM.encode(update), ROUNDS)


def narrow_mask(update: Update) -> np.ndarray:
    """Masks of 48 bits: enough to look random, not enough to hide what is larger."""
    mask = np.random.default_rng(0).integers(2**48, size=ROUNDS * 16, dtype=np.uint64)
    return encoded_only(update) + mask


def tells(zero: np.ndarray, large: np.ndarray) -> bool:
    """Whether messages differ between two updates, or from uniform ones."""
    uniform = [stats.kstest(sent / 2.0**64, "uniform").pvalue for sent in (zero, large)]
    pvalues = [stats.ks_2samp(zero, large).pvalue, *uniform]
    for shift in (0, 56):
        first, second = (
            np.bincount((sent >> np.uint64(shift)).astype(np.uint8), minlength=256)
            for sent in (zero, large)
        )
        pvalues.append(stats.chisquare(first + second).pvalue)
    both = np.stack([zero - np.roll(zero, 1), large - np.roll(large, 1)]).ravel()
    pvalues.append(stats.kstest(both / 2.0**64, "uniform").pvalue)
    assert len(pvalues) == 6
    return bool(min(pvalues) < LEVEL)


def test_a_masked_update_tells_nothing_about_the_update() -> None:
    assert not tells(masked(ZERO), masked(LARGE))


@pytest.mark.parametrize("weak", [encoded_only, narrow_mask], ids=lambda weak: weak.__name__)
def test_masks_that_hide_too_little_fail_that_test(weak: Callable[[Update], np.ndarray]) -> None:
    assert tells(weak(ZERO), weak(LARGE))


def test_two_messages_of_three_clients_do_not_give_away_the_third_ones_sum() -> None:
    """The sum over a proper subset is as uniform as one message."""
    partial = []
    for number in range(ROUNDS):
        contexts = rounds.begin(SUM, clients=3, number=number, like=LARGE)
        sent = [SUM.on_client(LARGE, contexts[client])["w"] for client in (0, 2)]
        partial.append(sent[0] + sent[1])
    assert stats.kstest(np.concatenate(partial) / 2.0**64, "uniform").pvalue > LEVEL


def one_round(clients: int = 4) -> tuple[list[Message], RoundContext]:
    contexts = rounds.begin(SUM, clients)
    sent = [protocol.send(SUM, rounds.update(client), contexts[client]) for client in contexts]
    return sent, contexts[0].round


@given(missing=st.sets(st.integers(0, 3), min_size=1, max_size=3))
def test_missing_clients_are_noticed_and_named(missing: set[int]) -> None:
    sent, context = one_round()
    there = [message for message in sent if message.client not in missing]
    wanted = f"got none of {', '.join(map(str, sorted(missing)))}: "
    with pytest.raises(DataError, match=wanted):
        protocol.receive(SUM, there, context)


def flipped(sent: list[Message], bit: int) -> list[Message]:
    values = dict(sent[0].values)
    values["temperature"] = values["temperature"] ^ np.uint64(1 << bit)
    values = {name: np.asarray(value) for name, value in values.items()}
    return [dataclasses.replace(sent[0], values=values), *sent[1:]]


@pytest.mark.parametrize("bit", [45, 52, 63])
def test_a_flipped_high_bit_is_noticed(bit: int) -> None:
    sent, context = one_round()
    with pytest.raises(DataError, match=r"expected a sum within 4 times 1024.*'temperature'"):
        protocol.receive(SUM, flipped(sent, bit), context)


@pytest.mark.parametrize("bit", [0, 30])
def test_a_flipped_low_bit_is_not_noticed_and_moves_the_sum_by_its_worth(bit: int) -> None:
    sent, context = one_round()
    views = [protocol.receive(SUM, each, context) for each in (sent, flipped(sent, bit))]
    assert isinstance(views[0], UpdateSum)
    assert isinstance(views[1], UpdateSum)
    moved = abs(float(views[0].total["temperature"] - views[1].total["temperature"]))
    assert moved == 2.0 ** (bit - 32)


def test_messages_of_other_keys_do_not_unmask() -> None:
    """A garbled message whose envelope is right: 64 random bits hardly ever fall into the range."""
    (sent, context), (other, _) = one_round(), one_round()
    mixed = [dataclasses.replace(other[0], session=sent[0].session), *sent[1:]]
    with pytest.raises(DataError, match="made with other keys"):
        protocol.receive(SUM, mixed, context)


def test_a_key_masks_one_update_only() -> None:
    context = rounds.begin(SUM)[0]
    SUM.on_client(rounds.update(0), context)
    with pytest.raises(DataError, match="got a used one"):
        SUM.on_client(rounds.update(1), context)


def test_keys_are_fresh_in_each_round() -> None:
    announced = [
        public
        for number in range(3)
        for public in rounds.begin(SUM, number=number)[0].round.announced.values()
    ]
    assert len(set(announced)) == 9
    assert all(len(public) == 32 for public in announced)


def with_announced(context: ClientContext, announced: Mapping[int, bytes]) -> ClientContext:
    return dataclasses.replace(
        context, round=dataclasses.replace(context.round, announced=announced)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda keys: {**keys, 0: keys[1]}, "public key that client 0 announced"),
        (lambda keys: {0: keys[0], 1: keys[1]}, "for each of the 3 participants"),
        (lambda keys: {**keys, 2: keys[1]}, "got 2 different ones from 3"),
        (lambda keys: {**keys, 9: OneTimeKey().public}, "for each of the 3 participants"),
        (lambda keys: {**keys, 1: b"short"}, "a public key of client 1"),
        (lambda keys: {**keys, 1: bytes(32)}, "a public key of client 1"),  # all share one secret
    ],
)
def test_announcements_that_are_not_sound_are_refused(
    change: Callable[[Mapping[int, bytes]], Mapping[int, bytes]], message: str
) -> None:
    context = rounds.begin(SUM)[0]
    spoilt = with_announced(context, change(context.round.announced))
    with pytest.raises(DataError, match=message):
        SUM.on_client(rounds.update(0), spoilt)


def test_clients_who_were_shown_different_keys_are_noticed_by_an_honest_server() -> None:
    contexts = rounds.begin(SUM)
    shown = {**contexts[0].round.announced, 2: OneTimeKey().public}
    sent = [
        protocol.send(SUM, rounds.update(0), with_announced(contexts[0], shown)),
        *(protocol.send(SUM, rounds.update(c), contexts[c]) for c in (1, 2)),
    ]
    with pytest.raises(DataError, match="another session"):
        protocol.receive(SUM, sent, contexts[0].round)


def test_what_is_out_of_range_is_refused_and_not_wrapped() -> None:
    update = {"w": np.array([0.0, -1024.5])}
    with pytest.raises(DataError, match=r"entries up to 1024\.0 times weight 1\.0, got.*1024\.5"):
        SUM.on_client(update, rounds.begin(SUM, like=update)[0])
    assert SUM.encode(update, weight=0.5).size == 2
    with pytest.raises(DataError, match="got one of inf"):
        SUM.encode({"w": np.array([1e300])}, weight=1e300)


@pytest.mark.parametrize("clients", [1, 3])
def test_rounds_of_one_or_of_too_many_are_refused(clients: int) -> None:
    defence = SecureSum(limit=2.0**20)
    with pytest.raises(SpecError, match=f"from 2 to 2 participants, got {clients}"):
        defence.on_client(rounds.update(0), rounds.begin(defence, clients)[0])


@pytest.mark.parametrize(
    ("limit", "bits"), [(0.0, 32), (float("inf"), 32), (1.0, -1), (1.0, 60), (2.0**30, 40)]
)
def test_settings_that_leave_no_room_are_refused(limit: float, bits: int) -> None:
    with pytest.raises(SpecError, match=r"fraction_bits|limit of SecureSum to be a finite number"):
        SecureSum(limit, bits)


def test_all_bits_may_hold_fractions_where_the_range_is_narrow() -> None:
    assert SecureSum(limit=0.25, fraction_bits=EXACT_BITS).most_clients == 4


def test_a_sum_cannot_be_unmasked_twice() -> None:
    sent, context = one_round()
    view = protocol.receive(SUM, sent, context)
    with pytest.raises(DataError, match="unmask once"):
        SUM.on_server(view, context)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.x25519", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[federated\]'"):
        SUM.announce()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_is_refused_from_one_step_beyond_what_clients_can_reach(sign: int) -> None:
    defence = SecureSum(limit=4.0, fraction_bits=10)
    most = sign * 3 * 4 * 2**10
    total = {"w": np.array([most], np.int64).view(np.uint64)}
    assert defence.decode(total, 3)["w"].tolist() == [sign * 12.0]
    with pytest.raises(DataError, match=r"within 3 times 4\.0"):
        defence.decode({"w": np.array([most + sign], np.int64).view(np.uint64)}, 3)


def test_the_masks_of_two_clients_are_others_in_each_round() -> None:
    """By the fingerprint of the round, should a program ever announce one key twice."""
    ours, theirs = X25519PrivateKey.generate(), OneTimeKey()
    masks = [
        secure_aggregation._mask_stream(ours, theirs.public, label, 100, "client 1")
        for label in (b"one round", b"another", b"one round")
    ]
    assert np.array_equal(masks[0], masks[2])
    assert not (masks[0] == masks[1]).any()  # 100 words of 64 bits
