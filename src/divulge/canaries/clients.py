"""Make canary clients, and score them by the transcript of the federation they took part in."""

import math
import secrets
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from divulge._util.arguments import FilePath, Seed, check_arguments
from divulge._util.folders import create_folder, take_folder
from divulge.canaries.make import CanaryCount, flip_coins
from divulge.canaries.rounds import watch_rounds
from divulge.core import Round
from divulge.data.canary_files import (
    Canaries,
    Neighbours,
    commit,
    read_clients,
    remove_unfinished,
    sha256,
    write_canaries,
)
from divulge.data.canary_scores import CanaryScores, write_scores
from divulge.errors import DataError, SpecError
from divulge.federation.canaries import ROUNDING, StatedEpsilon, change_of, floating, in_deviations
from divulge.federation.transcript.reader import Transcript

Sees = Literal["rounds", "final", "messages", "differences"]
"""What of a transcript is looked at: the new weights of each round, the final model alone, what
each canary client sent, or how changes differ from one round to the next."""

_NUMBERS = 2**24
"""Entries of changes that are in memory at once, about."""


class MadeCanaryClients(NamedTuple):
    """The files of one set of canary clients, and their sizes."""

    folder: Path
    canaries: int
    taking_part: int
    """How many clients the federation needs for them."""
    commitment: str
    """SHA-256 digest of salt, coins and canaries."""


@check_arguments
def make_canary_clients(
    folder: FilePath,
    count: CanaryCount,
    *,
    neighbours: Neighbours = "add-or-remove",
    seed: Seed | None = None,
) -> MadeCanaryClients:
    """Make canary clients: a secret key of a random direction each, and a fair coin.

    Give ``FOLDER/for-trainer`` to the federation, and keep ``FOLDER/for-auditor`` where it cannot
    be read.

    Args:
        folder: a new folder.
        count: how many canaries. `plan_canaries` says how many it takes.
        neighbours: ``add-or-remove``: the coin says whether a canary takes part, so half of them
            do: for central and distributed noise, whose ε is for one client more or less.
            ``replace``: all take part, and the coin says which of two opposite updates a canary
            sends: for local noise, whose ε is for replacing all that a client has.
        seed: makes canaries and coins repeatable, for experiments: whoever knows it knows the
            coins. By default all are drawn from the system's entropy.

    Raises:
        StoreError: the folder is not new, or cannot be written.

    References:
        Andrew et al. (2024), One-shot empirical privacy estimation for federated learning. Their
        coins are not drawn for each canary; here they are, for the bound of `audit_canaries`.
    """
    rng = np.random.default_rng(secrets.randbits(128) if seed is None else seed)
    coins = np.random.default_rng(secrets.randbits(128)) if seed is None else rng
    keys = np.array([f"{neighbours}:{rng.bytes(32).hex()}" for _ in range(count)])
    inserted = flip_coins(coins, count)
    salt = coins.integers(256, size=32, dtype=np.uint8)
    one_class = np.zeros(count, np.int64)
    commitment = commit(inserted, salt, sha256(keys, one_class))
    there = np.arange(count) if neighbours == "replace" else np.flatnonzero(inserted)
    signs = np.where(inserted, 1, -1)
    place = Path(folder)
    with take_folder(place, ("*.npz",)):
        remove_unfinished(place)
        create_folder(place)
        canaries = Canaries(keys, one_class, commitment)
        write_canaries(place, canaries, inserted, salt, signs, rng.permutation(there))
    return MadeCanaryClients(place, count, len(there), commitment)


@check_arguments
def score_transcript(
    canaries: FilePath, transcript: FilePath, path: FilePath, *, sees: Sees = "rounds"
) -> Path:
    """Score canary clients by what the transcript of their federation shows of each direction.

    A score is the cosine of a canary's direction and a change of the weights, in units of its
    standard deviation under noise alone; over rounds, their sum. Rounds that made no new weights
    are left out.

    Args:
        canaries: the folder of `make_canary_clients`; the coins in it are not read.
        transcript: the folder of the transcript.
        path: the ``.npz`` file to write.
        sees: ``rounds``: the new weights of each round, also under secure aggregation; ``final``:
            the last weights and the first alone; ``messages``: what each canary client sent, where
            all of them take part and the server sees single updates; ``differences``: how the
            changes of one round differ from those of the next, squared cosines: noise that repeats
            falls out, so that it shows who was drawn in the one round and not in the other.

    Returns:
        The path of the file.

    Raises:
        StoreError: canaries or transcript were changed, or a file cannot be read or written.
        DataError: the canaries are records, others took part in this federation, or there is
            nothing to look at.
        SpecError: ``messages``, and it is not known which client is which canary.

    References:
        Andrew et al. (2024), One-shot empirical privacy estimation for federated learning,
        algorithms 1 and 3: the final model, and all rounds (there the largest cosine, here the
        sum).
    """
    clients, played = read_clients(Path(canaries)), Transcript.open(transcript)
    steps = _find_steps(clients, played, transcript)
    last = played.rounds[steps[-1]]
    stated = next(
        (
            claim
            for number in reversed(steps)
            if (claim := StatedEpsilon.of(played.rounds[number].metrics))
        ),
        None,
    )
    names = played.header.settings.get("canary clients")
    if sees == "messages":
        rounds = _score_messages(clients, played, names)
    elif sees in ("rounds", "differences"):
        rounds = _score_rounds(clients, played, steps, differences=sees == "differences")
    else:
        assert last.aggregated is not None
        move = change_of(played.rounds[steps[0]].sent, last.aggregated)
        rounds = _cosines(clients, move[None])
    assert last.aggregated is not None
    model = sha256(*(value for _, value in sorted(floating(last.aggregated).items())))
    final = sees == "final"
    scores = CanaryScores(
        rounds.sum(axis=0),
        "black" if final else "white",
        clients.digest,
        model,
        0 if final else len(rounds),
        rounds if len(rounds) > 1 else None,
        None if stated is None else (stated.epsilon, stated.delta),
        _rounding_share(played, steps),
        noise=None if final else watch_rounds(played, steps, int(clients.digest[:16], 16)),
    )
    write_scores(Path(path), scores)
    return Path(path)


def _find_steps(clients: Canaries, played: Transcript, place: FilePath) -> list[int]:
    """The numbers of the rounds that made new weights.

    Raises:
        DataError: others took part in this federation, or no round made new weights.
    """
    settings = played.header.settings
    if settings.get("canaries") != clients.digest:
        raise DataError(
            f"expected a transcript with the canaries {clients.digest[:16]}..., got one with "
            f"{str(settings.get('canaries', 'none'))[:16]} in {place}: name the folder of "
            "canaries that took part in this federation"
        )
    steps = [number for number, done in enumerate(played.rounds) if done.aggregated is not None]
    if not steps:
        raise DataError(
            f"expected new weights in the rounds of {place}, got none: without them there is "
            "nothing to look at"
        )
    return steps


def _score_rounds(
    canaries: Canaries, transcript: Transcript, steps: Sequence[int], *, differences: bool
) -> Float64[np.ndarray, "rounds canaries"]:
    size = sum(value.size for value in floating(transcript.rounds[steps[0]].sent).values())
    at_once = max(1, _NUMBERS // max(1, size))
    parts = []
    pairs = list(pairwise(steps)) if differences else [(number,) for number in steps]
    if not pairs:
        raise DataError("expected two rounds or more to compare, got one: look at rounds")
    for first in range(0, len(pairs), at_once):
        some = pairs[first : first + at_once]
        moves = np.stack(
            [_move(*(transcript.rounds[number] for number in numbers)) for numbers in some]
        )
        parts.append(_cosines(canaries, moves))
    cosines = np.concatenate(parts)
    return cosines**2 if differences else cosines


def _rounding_share(transcript: Transcript, steps: Sequence[int]) -> float | None:
    """The largest share of a round's change that rounding can be; None without rounding."""
    shares = []
    for done in (transcript.rounds[number] for number in steps):
        deviation = done.metrics.get(ROUNDING, math.nan)
        if math.isfinite(deviation):
            move = _move(done)
            rounded = deviation * math.sqrt(len(move))
            shares.append(rounded / max(float(np.linalg.norm(move)), rounded))
    return max(shares, default=None)


def _move(done: Round, then: Round | None = None) -> Float64[np.ndarray, " entries"]:
    """The change of a round, less that of another."""
    assert done.aggregated is not None
    move = change_of(done.sent, done.aggregated)
    return move if then is None else move - _move(then)


def _score_messages(
    canaries: Canaries, transcript: Transcript, names: object
) -> Float64[np.ndarray, "rounds canaries"]:
    """0 where a canary client sent nothing that can be seen."""
    known = isinstance(names, Sequence) and len(names) == len(canaries.x)
    if canaries.neighbours != "replace" or not known:
        raise SpecError(
            "expected canary clients that all take part (neighbours='replace'), and a transcript "
            "that names them, got others: look at rounds or at the final model"
        )
    assert isinstance(names, Sequence)
    scores = np.zeros((len(transcript.rounds), len(names)))
    for row, done in zip(scores, transcript.rounds, strict=True):
        for at, name in enumerate(map(str, names)):
            if name in done.received:
                change = done.change(name)
                vector = np.concatenate([
                    change[name].astype(np.float64).ravel() for name in sorted(floating(change))
                ])  # fmt: skip
                row[at] = in_deviations(vector[None], str(canaries.x[at]))[0]
    if not scores.any():
        raise DataError(
            "expected messages of canary clients, got none: the server saw sums alone; look at "
            "rounds"
        )
    return scores


def _cosines(
    canaries: Canaries, moves: Float64[np.ndarray, "rounds entries"]
) -> Float64[np.ndarray, "rounds canaries"]:
    return np.stack([in_deviations(moves, key) for key in canaries.x.tolist()], axis=1)
