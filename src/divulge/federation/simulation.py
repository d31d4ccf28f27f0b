"""Simulate a federation round by round, and record what its server sees."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from divulge._util.arguments import Count, FilePath, check_arguments
from divulge._util.folders import take_folder
from divulge._util.progress import Progress, Track, as_track
from divulge.core import Round, Tensors
from divulge.federation.transcript.layout import HEADER, Header
from divulge.federation.transcript.reader import Transcript
from divulge.federation.transcript.writer import Writer

DOING = "Federating"


class SimulatedFederation(ABC):
    """A federation of any kind that can be simulated."""

    @property
    @abstractmethod
    def header(self) -> Header:
        """Header of the transcript: everything that the rounds depend on."""

    @property
    def training_note(self) -> str:
        """What a user has to know of the way clients train; empty where it is as set."""
        return ""

    @abstractmethod
    def rounds(self, first: int = 0, sent: Tensors | None = None) -> Iterator[Round]:
        """Yield one round after another, starting with round ``first`` from these weights."""


@check_arguments
def simulate(
    federation: SimulatedFederation,
    rounds: Count,
    run: FilePath | None = None,
    *,
    resume: bool = False,
    progress: Progress = False,
) -> Transcript:
    """Simulate a federation, and record what its server sees.

    Args:
        federation: federation to simulate.
        rounds: number of rounds in all.
        run: folder for the transcript, written as the rounds go on; in memory unless given.
        resume: whether to continue the transcript in that folder after its last whole round. It
            ends the same, bit for bit, as if it had never stopped.
        progress: True shows how far the work is; see `divulge.Options`.

    Raises:
        SpecError: there are no rounds.
        StoreError: the folder is in use, or belongs to another federation.
        DivulgeError: see ``rounds`` of the federation.
    """
    track = as_track(progress)
    if run is None:
        play = federation.rounds()
        played = tuple(next(play) for _ in track(range(rounds), _doing(federation)))
        return Transcript(federation.header, played)
    with take_folder(Path(run), (HEADER,)):
        return _record(federation, rounds, Path(run), track, resume=resume)


def _record(
    federation: SimulatedFederation, rounds: int, run: Path, track: Track[Any], *, resume: bool
) -> Transcript:
    """Play the rounds that the folder does not have, and write each."""
    begin = Writer.resume if resume and (run / HEADER).exists() else Writer.begin
    writer = begin(run, federation.header)
    there = Transcript.open(run).rounds
    play = federation.rounds(len(there), there[-1].aggregated if len(there) else None)
    with closing(write_aside(writer, play)) as written:
        for _ in track(range(len(there), rounds), _doing(federation), len(there)):
            next(written)
    return Transcript.open(run)


def _doing(federation: SimulatedFederation) -> str:
    """What the progress line says."""
    note = federation.training_note
    return f"{DOING} ({note})" if note else DOING


def write_aside(writer: Writer, rounds: Iterator[Round]) -> Generator[Round]:
    """Yield the rounds, and write each while the next one is played.

    What was yielded is on disk once the generator is closed.

    Raises:
        DataError: a round cannot be written.
        StoreError: the disk is full, or the folder cannot be written.
    """
    with ThreadPoolExecutor(1) as aside:
        writing: Future[None] | None = None
        try:
            for past in rounds:
                if writing is not None:
                    writing.result()
                writing = aside.submit(writer.add, past)
                yield past
        finally:
            if writing is not None:
                writing.result()
