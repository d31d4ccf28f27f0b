"""What a server accepts: this round, these clients, once each, with the right shapes."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from divulge.core import ClientUpdates, Message, UpdateDefence
from divulge.defences.updates import protocol
from divulge.defences.updates.compose import no_defence
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, SpecError

from . import rounds

BOTH = pytest.mark.parametrize("defence", [no_defence(), SecureSum()], ids=lambda d: d.name)
Spoil = Callable[[list[Message]], list[Message]]


def changed(**fields: object) -> Spoil:
    return lambda sent: [dataclasses.replace(sent[0], **fields), *sent[1:]]  # type: ignore[arg-type]


def values(change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    return lambda sent: changed(
        values={name: change(value) for name, value in sent[0].values.items()}
    )(sent)


HOSTILE: Mapping[str, tuple[Spoil, str]] = {
    "late": (changed(round=0), "round 1, got the message of client 0 for round 0 of this session"),
    "other run": (changed(session=bytes(32)), "for round 1 of another session"),
    "stranger": (changed(client=9), "of clients 0, 1, 2, got the message of client 9"),
    "impostor": (changed(client=1), "client 1 once, got it twice"),
    "twice": (lambda sent: [*sent, sent[0]], "client 0 once, got it twice"),
    "fewer": (lambda sent: changed(values=dict([*sent[0].values.items()][1:]))(sent), "names"),
    "more": (lambda sent: changed(values={**sent[0].values, "x": np.ones(2)})(sent), "'x'"),
    "reshaped": (values(lambda value: value[None]), r"of shape \(3, 4\), got \(1, 3, 4\)"),
    "integers": (values(lambda value: value.astype(np.int32)), "got int32"),
    "empty": (changed(values={}), "names of the global weights"),
}


@BOTH
@pytest.mark.parametrize("spoil", HOSTILE)
def test_what_does_not_belong_to_the_round_is_refused(defence: UpdateDefence, spoil: str) -> None:
    change, message = HOSTILE[spoil]
    contexts = rounds.begin(defence)
    sent = [protocol.send(defence, rounds.update(c), contexts[c]) for c in contexts]
    protocol.receive(defence, sent, contexts[0].round)
    with pytest.raises(DataError, match=message):
        protocol.receive(defence, change(sent), contexts[0].round)


def test_a_message_that_is_not_finite_is_refused_by_name() -> None:
    contexts = rounds.begin(no_defence())
    sent = [protocol.send(no_defence(), rounds.update(c), contexts[c]) for c in contexts]
    spoilt = values(lambda value: value * np.float32(np.nan))(sent)
    with pytest.raises(DataError, match="message of client 0 finite, got NaN"):
        protocol.receive(no_defence(), spoilt, contexts[0].round)


def test_a_client_without_the_defence_is_noticed() -> None:
    masked, plain = rounds.begin(SecureSum()), rounds.begin(no_defence())
    naked = dataclasses.replace(
        protocol.send(no_defence(), rounds.update(0), plain[0]),
        session=protocol.session_fingerprint(masked[0].round),
    )
    with pytest.raises(DataError, match="client 0 masked, as uint64, got float32"):
        protocol.receive(SecureSum(), [naked], masked[0].round)


def test_a_client_checks_its_own_update_against_the_model_it_was_sent() -> None:
    other = {**rounds.update(0), "layer.bias": np.ones(4, np.float32)}
    with pytest.raises(DataError, match=r"update of client 0 of shape \(3,\), got \(4,\)"):
        protocol.send(no_defence(), other, rounds.begin(no_defence())[0])


def test_without_a_defence_the_server_sees_who_arrived() -> None:
    contexts = rounds.begin(no_defence())
    sent = [protocol.send(no_defence(), rounds.update(c), contexts[c]) for c in (2, 0)]
    view = protocol.receive(no_defence(), sent, contexts[0].round)
    assert isinstance(view, ClientUpdates)
    assert set(view.by_client) == {0, 2}
    assert protocol.receive(no_defence(), [], contexts[0].round) == ClientUpdates({})


def test_a_session_depends_on_all_that_is_known() -> None:
    context = rounds.begin(SecureSum())[0].round
    sessions = {
        protocol.session_fingerprint(each)
        for each in (
            context,
            dataclasses.replace(context, number=2),
            dataclasses.replace(context, participants=(0, 1)),
            dataclasses.replace(context, shapes={"w": (2,)}),
            dataclasses.replace(context, announced={0: b"other"}),
        )
    }
    assert len(sessions) == 5


def test_contexts_hold_the_secret_of_their_own_client_alone() -> None:
    contexts = rounds.begin(SecureSum())
    assert len({id(context.secret) for context in contexts.values()}) == len(contexts)
    assert "secret" not in repr(contexts[0])
    assert not hasattr(contexts[0].round, "secret")


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan"), float("inf")])
def test_shares_that_make_no_sense_are_refused(share: float) -> None:
    with pytest.raises(SpecError, match=r"share of client 1 above 0|a finite number"):
        protocol.begin_round(no_defence(), 1, rounds.WEIGHTS, {0: 1.0, 1: share}, 0)


def test_a_round_without_participants_is_refused() -> None:
    with pytest.raises(SpecError, match="at least one participant"):
        protocol.begin_round(no_defence(), 1, rounds.WEIGHTS, {}, 0)
