"""Record a federation that a framework runs: what the recorders of all frameworks have in common.

Recording never disturbs the run: once a transcript is begun, an error ends the recording alone.
"""

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from divulge._util.folders import take_folder
from divulge.core import LocalTraining, MaskedSum, ReceivedUpdate, Round, Tensors
from divulge.errors import DataError, DivulgeError
from divulge.federation.transcript import layout
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.writer import Writer, refuse_content

log = logging.getLogger(__name__)
Number = int | float | np.integer | np.floating
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Recording:
    """A transcript that is written while a run goes on, round by round.

    In each round, `start_round` comes first, then `receive` for each client, or `receive_sum` under
    secure aggregation, then `finish_round`.
    After an error they do nothing any more.

    Args:
        folder: new folder for the transcript.

    Attributes:
        error: what ended the recording before its time; None if nothing did.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.error: Exception | None = None
        self._held = contextlib.ExitStack()  # the lock of the folder
        self._taken = False
        self._writer: Writer | None = None
        self._number = 0
        self._sent: tuple[Tensors, LocalTraining] | None = None
        self._received: dict[str, ReceivedUpdate] = {}
        self._sum: MaskedSum | None = None

    @property
    def begun(self) -> bool:
        """Whether the header of the transcript is written."""
        return self._writer is not None

    @property
    def over(self) -> bool:
        """Whether an error ended the recording."""
        return self.error is not None

    @property
    def open(self) -> bool:
        """Whether a round is being recorded."""
        return self._sent is not None and not self.over

    @property
    def answered(self) -> bool:
        """Whether a client has answered in the round that is being recorded."""
        return self.open and bool(self._received)

    def take(self) -> None:
        """Keep others out of the folder until `release`.

        Raises:
            StoreError: somebody else works in it, there is something in it, or it cannot be made.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(take_folder(self.folder, (layout.HEADER,)))
            refuse_content(self.folder)
            self._held.push(stack.pop_all())
        self._taken = True

    def release(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Let the folder go; where an error ended the run before the first round, it is removed."""
        self._taken = False
        self._held.__exit__(kind, error, trace)

    def begin(self, header: Header, sent: Tensors) -> None:
        """Begin the transcript with the weights that are sent out first.

        Raises:
            StoreError: the transcript cannot be begun.
            DataError: there is something in the weights that no transcript can hold.
        """
        _check_arrays(sent, header)
        if not self._taken:
            self.take()
        try:
            self._writer = Writer.begin(self.folder, header)
        except BaseException:
            self.release(*sys.exc_info())
            raise

    @contextlib.contextmanager
    def contain_errors(self) -> Iterator[None]:
        """Let an error of recording end the recording, and not the run."""
        try:
            yield
        except Exception as error:
            self.error = error
            log.exception("recording ends with %d round(s) in %s", self._number, self.folder)

    def start_round(self, sent: Tensors, training: LocalTraining) -> None:
        """Note the weights that a round sends out; a round that was not finished is dropped.

        Raises:
            DataError: no transcript can hold these weights.
        """
        if self._writer is not None and self.error is None:
            _check_arrays(sent, self._writer.header)
            self._sent, self._received, self._sum = (sent, training), {}, None

    def check_sent(self, sent: Tensors) -> None:
        """Refuse weights for one more client of the round that are not those of the others.

        Raises:
            DataError: they are others.
        """
        if self._sent is not None and not _are_equal(self._sent[0], sent):
            raise DataError(
                "expected the same weights to all clients of a round, got different ones: "
                "a transcript holds one set of global weights"
            )

    def receive(
        self,
        client: str,
        read: Callable[[], Tensors],
        records: int | None,
        *,
        copy: bool = False,
    ) -> None:
        """Note what a client sent in this round; what no transcript can hold is left out.

        Args:
            client: name of the client.
            read: reads its tensors, and raises a `DivulgeError` where it cannot.
            records: number of records that it says it has.
            copy: whether others may change the tensors before the round is finished.
        """
        if self._writer is None or not self.open:
            return
        try:
            layout.check_client(client)
            if client in self._received:
                raise DataError("expected one reply a round, got another one: keep the first")
            arrays = read()
            _check_arrays(arrays, self._writer.header)
            if copy:
                arrays = {name: value.copy() for name, value in arrays.items()}
        except DivulgeError as error:
            log.warning("client %s is left out of the transcript: %s", ascii(client)[1:-1], error)
        else:
            self._received[client] = ReceivedUpdate(arrays, records)

    def receive_sum(self, clients: Sequence[str], sum_: Tensors, records: int | None) -> None:
        """Note what secure aggregation shows of the clients of this round, in place of `receive`.

        Args:
            clients: names of the clients that it is of.
            sum_: the sum of their tensors, each weighted by its share of the records.
            records: how many records they say they have together.

        Raises:
            DataError: no transcript can hold a name or these tensors.
        """
        if self._writer is None or not self.open:
            return
        for client in clients:
            layout.check_client(client)
        _check_arrays(sum_, self._writer.header)
        self._sum = MaskedSum(tuple(clients), sum_, records)

    def finish_round(self, read: Callable[[], Tensors | None], metrics: Mapping[Any, Any]) -> None:
        """Write the round.

        Args:
            read: reads the new weights; None where the server made none. Weights that no
                transcript can hold are left out.
            metrics: metrics of the round by name; what is no number is left out.

        Raises:
            StoreError: the disk is full, or the folder cannot be written.
        """
        if self._writer is None or self._sent is None or not self.open:
            return
        aggregated: Tensors | None = None
        try:
            made = read()
            if made is not None:
                _check_arrays(made, self._writer.header)
            aggregated = made
        except DataError as error:
            log.warning("the new weights are left out of the transcript: %s", error)
        sent, training = self._sent
        played = Round(
            number=self._number,
            kind=self._writer.header.kind,
            sent=sent,
            received=self._received,
            masked=self._sum,
            training=training,
            aggregated=aggregated,
            metrics=_read_metrics(metrics),
        )
        self._sent, self._received, self._sum = None, {}, None
        self._writer.add(played)
        self._number += 1


def as_count(value: Any) -> int | None:
    """A number of records as somebody says it; None where it is not a whole number."""
    if isinstance(value, bool) or not isinstance(value, Number) or not -(2**63) < value < 2**63:
        return None  # NaN is not less either
    return int(value) if value == int(value) else None


def _read_metrics(metrics: Mapping[Any, Any]) -> dict[str, float]:
    """Metrics that are numbers, under names that can be written."""
    numbers: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Number):
            with contextlib.suppress(OverflowError):
                numbers[CONTROL.sub("?", str(name))[:100]] = float(value)
    return numbers


def _check_arrays(arrays: Tensors, header: Header) -> None:
    """Refuse arrays that are not those of the network, or hold something else than numbers.

    Raises:
        DataError: names, shapes or types are others.
    """
    shapes = {name: value.shape for name, value in arrays.items()}
    if shapes != header.shapes:
        raise DataError(
            "expected the names and shapes of the weights that were sent out first, got others: "
            "a transcript holds one network"
        )
    for name, value in arrays.items():
        if value.dtype not in layout.DTYPES.values():
            raise DataError(
                f"expected numbers in {name}, got an array of type {value.dtype}: "
                f"convert it to one of {', '.join(layout.DTYPES)}"
            )


def _are_equal(first: Tensors, second: Tensors) -> bool:
    return first.keys() == second.keys() and all(
        np.array_equal(value, second[name], equal_nan=value.dtype.kind == "f")
        for name, value in first.items()
    )
