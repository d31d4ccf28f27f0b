"""Provide a Flower strategy that records what the server sees, and changes nothing."""

import contextlib
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from divulge._util.json import JSON
from divulge.core import LocalTraining, Tensors, UpdateKind
from divulge.federation.canaries import DEVIATION, CanaryClients
from divulge.federation.flower import records
from divulge.federation.flower.wrappers import (
    first_with,
    intercept,
    stated_deviation,
    stated_epsilon,
)
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.recording import Recording

log = logging.getLogger(__name__)
UNKNOWN_TRAINING = LocalTraining()


class Recorder(Strategy):
    """Wraps a strategy and writes a transcript while the run goes on.

    The strategy gets the calls, messages and replies that it would get without a recorder, and
    what it returns is passed on as it is. A round is on disk as soon as the strategy has made its
    new weights, so a killed run leaves all rounds before. Clients that failed, that did not answer
    in time, or whose answer does not have the network's shapes, are absent from the round.

    **When it cannot write**: a folder that cannot be begun (it exists already, no permission)
    raises before any client has trained. Later, as when the disk fills up, the training is worth
    more than the transcript: the run goes on, recording ends with the round before, an error is
    logged then and once more at the end, and ``error`` holds the exception. The header says how
    many rounds were planned, so that a shorter transcript shows what it is.

    **The folder is locked** from the first message to the end of the run, so that a second recorder
    is refused with the number of the first one's process. A recorder whose ``start`` is not called,
    since another strategy wraps it, keeps the lock for as long as it lives.

    Args:
        strategy: strategy to record, of the message API. Wrap it last: behind a wrapper that
            changes replies, such as Flower's server-side clipping, the recorder would not see
            what the server gets.
        folder: new folder for the transcript.
        name: name of the federation in the transcript.
        kind: what the clients send: their new ``weights``, an ``update``, or a ``gradient``.
        training: settings of local training that the server knows beyond the configuration that
            is sent; this is searched for ``lr``, ``epochs``, ``batch-size`` and the like.
        canaries: canary clients that take part, see `CanaryMod`. The transcript then names their
            digest, and for each round the (ε, δ) that the accountant of a DP strategy states, and
            the standard deviation of its noise.
    """

    def __init__(
        self,
        strategy: Strategy,
        folder: str | Path,
        *,
        name: str = "flower",
        kind: UpdateKind = "weights",
        training: LocalTraining = UNKNOWN_TRAINING,
        canaries: CanaryClients | None = None,
    ) -> None:
        self.strategy = strategy
        self.folder = Path(folder)
        self._recording = Recording(self.folder)
        self._configure, self._aggregate = strategy.configure_train, strategy.aggregate_train
        self._name, self._kind, self._training = name, kind, training
        self._canaries = canaries
        self._records_key = _records_key(strategy)
        self._planned: dict[str, JSON] = {}
        self._deviation: float | None = None

    @property
    def error(self) -> Exception | None:
        """What ended the recording before its time; None if nothing did."""
        return self._recording.error

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        *args: Any,
        **kwargs: Any,
    ) -> Result:
        """Run the strategy; its own ``start`` does it, with the recorder listening.

        Raises:
            StoreError: the transcript cannot be begun.
            DataError: there is something in the first weights that no transcript can hold.
        """
        self._planned = {"rounds": num_rounds}
        mine: Mapping[str, Any] = {
            "configure_train": self.configure_train,
            "aggregate_train": self.aggregate_train,
        }
        with contextlib.ExitStack() as run, intercept(self.strategy, mine):
            run.push(self._recording.release)
            result = self.strategy.start(grid, initial_arrays, num_rounds, *args, **kwargs)
        if self.error is not None:
            log.error("the transcript in %s ends early: %s", self.folder, self.error)
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages that the strategy sends out for training.

        Raises:
            StoreError: the transcript cannot be begun.
            DataError: there is something in the first weights that no transcript can hold.
        """
        messages = list(self._configure(server_round, arrays, config, grid))
        self._deviation = stated_deviation(self.strategy)
        if messages and self.error is None:
            if not self._recording.begun:
                self._begin(messages[0].content)
            with self._recording.contain_errors():
                self._read_sent(messages)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """New weights and metrics that the strategy computes from the replies."""
        replies = list(replies)
        with self._recording.contain_errors():  # before the strategy, which may change them
            self._read_replies(replies)
        arrays: ArrayRecord | None = None
        metrics: MetricRecord | None = None
        try:
            arrays, metrics = self._aggregate(server_round, replies)
        finally:  # the server has seen the replies even if it could make nothing of them
            with self._recording.contain_errors():
                self._finish(arrays, metrics)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages that the strategy sends out for evaluation."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Metrics that the strategy computes from the replies."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Print the summary of the strategy."""
        self.strategy.summary()

    def _begin(self, content: RecordDict) -> None:
        sent = records.read_tensors(content)
        settings = {
            "framework": records.FRAMEWORK,
            "config": records.read_config(content),
            **self._planned,
        }
        if self._canaries is not None:
            settings["canaries"] = self._canaries.digest
        header = Header(
            name=self._name,
            kind=self._kind,
            shapes={name: value.shape for name, value in sent.items()},
            rule=type(self.strategy).__name__,
            settings=settings,
        )
        self._recording.begin(header, sent)

    def _read_sent(self, messages: list[Message]) -> None:
        """Note weights and training settings of a round, which are the same for all clients."""
        content = messages[0].content
        training = records.read_local_training(records.read_config(content), self._training)
        self._recording.start_round(records.read_tensors(content), training)
        for message in messages[1:]:
            if message.content is not content:
                self._recording.check_sent(records.read_tensors(message.content))

    def _read_replies(self, replies: list[Message]) -> None:
        for reply in replies:
            if reply.has_error():
                continue
            content = reply.content
            count = records.number_of_records(content, self._records_key)
            client = str(reply.metadata.src_node_id)
            self._recording.receive(client, partial(records.read_tensors, content), count)

    def _finish(self, arrays: ArrayRecord | None, metrics: MetricRecord | None) -> None:
        def read() -> Tensors | None:
            return None if arrays is None else records.read_tensors(RecordDict({"arrays": arrays}))

        numbers = dict(metrics or {})
        if self._canaries is not None:
            numbers |= stated_epsilon(self.strategy)
            # adaptive clipping draws noise for the norm of this round or the next
            scales = [each for each in (self._deviation, stated_deviation(self.strategy)) if each]
            numbers |= {DEVIATION: min(scales)} if len(scales) == 2 else {}
        self._recording.finish_round(read, numbers)


def _records_key(strategy: Strategy) -> str:
    """Key that the innermost strategy weighs by."""
    return str(getattr(first_with(strategy, "weighted_by_key"), "weighted_by_key", "num-examples"))
