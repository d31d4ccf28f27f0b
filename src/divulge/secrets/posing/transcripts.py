"""What all challenges from a transcript share: whom they are about, and with which network."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from divulge.core import Records
from divulge.errors import DataError, SpecError, StoreError, TargetError, did_you_mean
from divulge.federation import Transcript
from divulge.targets.batching import translate_model_errors


def choose_clients(transcript: Transcript, wanted: Sequence[str]) -> tuple[str, ...]:
    """The clients that settings name; without any, all that ever took part.

    They come in the order of their first round; if their names are numbers, by size.

    Raises:
        SpecError: one of them never took part, or is named twice.
        StoreError: there are no rounds.
    """
    rounds = range(len(transcript.rounds))
    participants = tuple(dict.fromkeys(c for k in rounds for c in transcript.clients(k)))
    if all(name.isdecimal() for name in participants):
        participants = tuple(sorted(participants, key=int))
    if not participants:
        raise StoreError("expected a transcript with rounds, got one without: record some first")
    for client in wanted:
        if client not in participants:
            hint = did_you_mean(client, participants)
            raise SpecError(f"expected a client of the transcript, got {client!r}: {hint}")
    name, times = Counter(wanted or participants).most_common(1)[0]
    if times > 1:  # the tests of verdicts count each client once
        raise SpecError(f"expected each client once, got {name!r} {times} times: name it once")
    return tuple(wanted) or participants


def count_summed(transcript: Transcript) -> tuple[int, ...]:
    """Of each round that showed the server a sum alone, the number of its clients."""
    return tuple(len(entry.sum.clients) for entry in transcript.entries() if entry.sum)


def check_network(
    transcript: Transcript, network: Callable[[], Any], records: Records, section: str
) -> int:
    """Refuse a network that the transcript's weights do not belong to, or that reads other records.

    Args:
        transcript: transcript of the federation, with one round or more.
        network: function that makes the module.
        records: records that the network has to read.
        section: the key of the settings that names them.

    Returns:
        The number of classes that the network tells apart.

    Raises:
        TargetError: the network cannot be made or asked, or has other tensors: it lacks some of the
            transcript's, or has random ones that the transcript lacks.
        DataError: the records are of other classes.
    """
    import torch

    from divulge.targets.torch import TorchTarget
    from divulge.training.engine.networks import load_network

    sent = transcript.rounds[0].sent
    with translate_model_errors(
        "a network that the weights belong to", "name the function that made the clients' network"
    ):
        states = []
        for seed in (0, 1):  # what differs between them is drawn, and not the clients'
            with torch.random.fork_rng([]):
                torch.manual_seed(seed)
                states.append(load_network(network, sent).state_dict())
        for name in states[0].keys() - sent.keys():
            if not torch.equal(*(state[name] for state in states)):
                raise TargetError(
                    f"expected the tensor {name!r} of the network in the transcript too, it has "
                    f"{', '.join(list(sent)[:20])}: name the function that made the clients' "
                    "network, with the weights that are not sent"
                )
        module = load_network(network, {})
    classes: int = TorchTarget(module, "logits").predict(records.x[:1]).shape[1]
    if len(records) and records.y.max() >= classes:
        raise DataError(
            f"expected classes below {classes} in {section}, got {records.y.max()}: "
            "number them as the clients did"
        )
    return classes
