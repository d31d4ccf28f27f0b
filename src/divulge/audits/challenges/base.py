"""What is to be found out, ready for attacks."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge._util.progress import Track
from divulge.audits.attempt import Result
from divulge.audits.challenges import images
from divulge.audits.challenges.result import Subject
from divulge.core import BlindRun
from divulge.errors import SpecError, did_you_mean
from divulge.federation import Transcript


def uncontrolled(attack: Any, seed: int, track: Track[Any]) -> None:
    """Of questions that have no blind control."""
    del attack, seed, track


@dataclass(frozen=True, slots=True)
class Question:
    """A challenge that attacks can be run on, and what its run folder keeps of it."""

    subject: Subject
    run: Callable[[Any, int, Track[Any]], Result]
    """Carries out an attack under a seed, showing how far it is."""
    digest: str
    """Of all that an attack sees, and of the truth."""
    blind: Callable[[Any, int, Track[Any]], BlindRun | None] = uncontrolled
    """Carries an attack out on what is shuffled; None without the truth, or such a control."""
    records: Callable[[], Mapping[str, bytes]] = images.none
    """Pictures of records, for a page that is asked to show some, by path in the run folder."""


def digest(text: str, *arrays: np.ndarray) -> str:
    """What tells this text and these arrays from others."""
    made = hashlib.blake2b(text.encode(), digest_size=16)
    for array in arrays:
        made.update(f"{array.dtype}{array.shape}".encode())
        made.update(np.ascontiguousarray(array).data)
    return made.hexdigest()


def attacked(transcript: Transcript, asked: Sequence[str]) -> tuple[str, ...]:
    """The clients asked for; without any, all that ever took part.

    They come in the order of their first round; if their names are numbers, by size.

    Raises:
        SpecError: one of them never took part.
    """
    rounds = range(len(transcript.rounds))
    everybody = tuple(dict.fromkeys(c for k in rounds for c in transcript.clients(k)))
    if all(name.isdecimal() for name in everybody):
        everybody = tuple(sorted(everybody, key=int))
    for client in asked:
        if client not in everybody:
            hint = did_you_mean(client, everybody)
            raise SpecError(f"expected a client of the transcript, got {client!r}: {hint}")
    return tuple(asked) or everybody
