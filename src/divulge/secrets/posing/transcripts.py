"""What all challenges from a transcript share: whom they are about."""

from collections.abc import Sequence

from divulge.errors import SpecError, StoreError, did_you_mean
from divulge.federation import Transcript


def choose_clients(transcript: Transcript, wanted: Sequence[str]) -> tuple[str, ...]:
    """The clients that settings name; without any, all that ever took part.

    They come in the order of their first round; if their names are numbers, by size.

    Raises:
        SpecError: one of them never took part.
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
    return tuple(wanted) or participants


def count_summed(transcript: Transcript) -> tuple[int, ...]:
    """Of each round that showed the server a sum alone, the number of its clients."""
    return tuple(len(entry.sum.clients) for entry in transcript.entries() if entry.sum)
