"""Summarise a transcript: its rounds, clients and norms, and whatever looks odd."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from divulge._util.norms import euclidean_norm
from divulge._util.progress import Progress, as_track
from divulge.core import Guarantee, Round, Tensors
from divulge.errors import NotApplicable, StoreError
from divulge.federation.transcript.consistency import explain_misread
from divulge.federation.transcript.reader import Transcript

RECORDS_OUTLIER_FACTOR: Final = 100
"""A client's number of records is flagged above this multiple of the median of its round."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One odd observation, which may have a harmless reason."""

    round: int
    client: str | None
    """Name of the client; None if it concerns the server, or the round as a whole."""
    text: str


@dataclass(frozen=True, slots=True)
class RoundLine:
    """Summary of one round."""

    number: int
    clients: int
    hidden: bool
    """Whether the server had only the sum of the updates."""
    records: int | None
    """Number of records of all clients together, as they claim it; None if none claims any."""
    step: float | None
    """L2 norm of the change of the global weights; None if the new weights are not known."""
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ClientLine:
    """Summary of one client over all rounds."""

    client: str
    rounds: int
    records: int | None
    """Number of records that it claimed last."""
    norm: float | None
    """Mean L2 norm of its updates; None if the server had only sums."""
    guarantee: Guarantee | None
    """Privacy guarantee that it claimed last, for all rounds up to that one."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Summary of a transcript."""

    name: str
    writer: str
    kind: str
    rule: str
    tensors: int
    parameters: int
    rounds: tuple[RoundLine, ...]
    clients: tuple[ClientLine, ...]
    flags: tuple[Flag, ...]


@dataclass(slots=True)
class _ClientHistory:
    """Facts about a client, gathered round by round."""

    rounds: int = 0
    records: int | None = None
    norms: list[float] = field(default_factory=list)
    guarantee: Guarantee | None = None


def inspect(transcript: Transcript, *, progress: Progress = False) -> Inspection:
    """Read all rounds, one at a time; one that cannot be read is flagged and left out."""
    histories: dict[str, _ClientHistory] = {}
    lines: list[RoundLine] = []
    flags: list[Flag] = []
    for number in as_track(progress)(range(len(transcript.rounds)), "Reading rounds"):
        try:
            played = transcript.rounds[number]
        except StoreError as error:
            flags.append(Flag(number, None, f"cannot be read: {error}"))
            continue
        flags += _global_flags(played)
        counts = (got.records for got in played.received.values())
        claims = sorted(claim for claim in counts if claim is not None)
        for client in played.clients:
            history = histories.setdefault(client, _ClientHistory())
            flags += _client_flags(played, client, history, claims)
        lines.append(_round_line(played))
    header = transcript.header
    return Inspection(
        header.name,
        header.writer,
        header.kind,
        header.rule,
        len(header.shapes),
        sum(int(np.prod(shape, dtype=object)) for shape in header.shapes.values()),
        tuple(lines),
        tuple(_client_line(name, history) for name, history in histories.items()),
        tuple(flags),
    )


def _round_line(played: Round) -> RoundLine:
    claims = [got.records for got in played.received.values()]
    known = [claim for claim in claims if claim is not None]
    step = None
    if played.aggregated is not None:
        step = norm({n: played.aggregated[n] - sent for n, sent in _floats(played.sent)})
    return RoundLine(
        played.number,
        len(played.clients),
        played.masked is not None,
        played.masked.records if played.masked else (sum(known) if known else None),
        step,
        played.metrics,
    )


def _client_line(name: str, history: _ClientHistory) -> ClientLine:
    mean = float(np.mean(history.norms)) if history.norms else None
    return ClientLine(name, history.rounds, history.records, mean, history.guarantee)


def _global_flags(played: Round) -> Iterator[Flag]:
    groups: dict[str, Tensors] = {"the weights sent out": played.sent}
    if played.masked is not None:
        groups["the sum"] = played.masked.tensors
    if played.aggregated is not None:
        groups["the aggregated weights"] = played.aggregated
    for what, tensors in groups.items():
        if odd := _not_finite(tensors):
            yield Flag(played.number, None, f"{odd} in {what}")
    if misread := explain_misread(played, played.aggregated):
        yield Flag(played.number, None, f"clients sent another kind than declared: {misread}")


def _client_flags(
    played: Round, client: str, history: _ClientHistory, claims: Sequence[int]
) -> Iterator[Flag]:
    """Flags of one client in one round; facts about the client are added to ``history``.

    Args:
        played: the round.
        client: the client.
        history: what is known of it from earlier rounds.
        claims: the numbers of records that clients of the round claim, sorted.
    """
    history.rounds += 1
    if client not in played.received:
        return
    got = played.received[client]
    if odd := _not_finite(got.tensors):
        yield Flag(played.number, client, f"{odd} in what it sent")
    else:
        size = norm(_change(played, client))
        history.norms.append(size)
        if size == 0:
            yield Flag(played.number, client, "sent back what it was sent: nothing was trained")
    for text in _odd_claims(got.records, claims, history.records):
        yield Flag(played.number, client, text)
    history.records = got.records if got.records is not None else history.records
    history.guarantee = got.guarantee or history.guarantee


def _odd_claims(claim: int | None, claims: Sequence[int], before: int | None) -> list[str]:
    """Describe what is odd about the number of records that a client claims."""
    if claim is None:
        return []
    odd = []
    if claim <= 0:
        odd.append(f"says it has {claim} records")
    median = claims[len(claims) // 2]
    if len(claims) > 2 and claim > RECORDS_OUTLIER_FACTOR * max(median, 1):
        odd.append(f"says it has {claim} records, where the median of the round is {median}")
    if before is not None and claim != before:
        odd.append(f"says it has {claim} records, and said {before} before")
    return odd


def _change(played: Round, client: str) -> Tensors:
    try:
        return played.change(client)
    except NotApplicable:  # a gradient without a learning rate
        return played.received[client].tensors


def _floats(tensors: Tensors) -> Iterator[tuple[str, np.ndarray]]:
    return ((name, array) for name, array in tensors.items() if array.dtype.kind == "f")


def norm(tensors: Tensors) -> float:
    """The L2 norm of all floating-point tensors together.

    Examples:
        >>> norm({"w": np.array([3.0]), "b": np.array([4.0]), "steps": np.array(7)})
        5.0
    """
    each = [float(euclidean_norm(array)) for _, array in _floats(tensors)]
    return float(euclidean_norm(np.array(each)))


def _not_finite(tensors: Tensors) -> str:
    """Describe how many numbers are NaN or infinite; empty if all are finite."""
    odd = sum(int((~np.isfinite(array)).sum()) for _, array in _floats(tensors))
    total = sum(array.size for _, array in _floats(tensors))
    return f"NaN or infinity in {odd} of {total} numbers" if odd else ""
