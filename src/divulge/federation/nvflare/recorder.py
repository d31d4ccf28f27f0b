"""Provide a FLARE filter that records what the server sees, and changes nothing."""

import logging
import threading
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
from nvflare.apis.dxo import DataKind
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.abstract.model import ModelLearnable, ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from divulge._util.json import JSON
from divulge.core import LocalTraining, Tensors, UpdateKind
from divulge.errors import DivulgeError, SpecError, did_you_mean
from divulge.federation.nvflare import records
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.recording import Recording

log = logging.getLogger(__name__)
KINDS: dict[str, str] = {"weights": DataKind.WEIGHTS, "update": DataKind.WEIGHT_DIFF}
"""FLARE's kind of data for each kind of update."""


class FlareRecorder(Filter):  # type: ignore[misc]  # FLARE is not typed
    """Filters the results of clients on the server, and writes a transcript of the run.

    What passes through it goes on as it is. It sees what comes in as a filter, and what goes out
    and the new weights by FLARE's events: ``FedAvg``, ``ScatterAndGather`` and whatever derives
    from them tell all of it. A round is on disk as soon as its new weights are made. Clients that
    failed, that did not answer in time, or whose answer does not have the network's shapes, are
    absent from the round.

    **When it cannot write**: a folder that is not new ends the job before it begins. Later the
    training is worth more than the transcript: the run goes on, recording ends with the round
    before, and an error is logged then and once more at the end.

    Its arguments are what JSON can hold, since FLARE writes them into the job and makes the
    recorder from them on the server.

    Args:
        folder: new folder for the transcript, on the server. It is absolute, since FLARE starts
            the server of a job in a folder of its own.
        federation: name of the federation in the transcript.
        kind: what the clients send: their new ``weights``, or an ``update``.
        task: name of the training task.
        training: settings of local training, such as ``{"lr": 0.1, "batch_size": 32}``; the names
            are those of `divulge.core.LocalTraining`. FLARE sends none.
        records_key: name in a result's meta information under which clients give their number of
            records. FLARE's own ``NUM_STEPS_CURRENT_ROUND`` counts steps.

    Raises:
        SpecError: the folder is not absolute, or the kind or the training is not known.
    """

    def __init__(
        self,
        folder: str,
        federation: str = "nvflare",
        kind: UpdateKind = "weights",
        task: str = AppConstants.TASK_TRAIN,
        training: dict[str, Any] | None = None,
        records_key: str = "num-examples",
    ) -> None:
        super().__init__()
        if not Path(folder).is_absolute():
            raise SpecError(f"expected an absolute path as folder, got {folder!r}: give one")
        if kind not in KINDS:
            raise SpecError(
                f"expected {' or '.join(KINDS)} as kind, got {kind!r}: {did_you_mean(kind, KINDS)}"
            )
        self._known = _read_training(training or {})
        self.folder, self.federation, self.task = folder, federation, task
        self.kind: UpdateKind = kind
        self.training, self.records_key = training, records_key
        self._recording = Recording(Path(folder))
        self._lock = threading.RLock()  # FLARE serves each client in a thread of its own
        self._rule = ""
        self._round: object = None
        self._asked: dict[str, str] = {}  # names of the clients of this round by their tasks
        self._metrics: dict[Any, Any] = {}

    @property
    def error(self) -> Exception | None:
        """What ended the recording before its time; None if nothing did."""
        return self._recording.error

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Note what a client sent; it is passed on as it is."""
        with self._lock, self._recording.contain_errors():
            self._receive(shareable, fl_ctx)
        return shareable

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen to what the server does."""
        with self._lock:
            if event_type == EventType.START_RUN:
                self._take(fl_ctx)
            elif event_type == EventType.END_RUN:
                self._end()
            elif self._recording.over:
                return
            elif event_type == AppEventType.ROUND_STARTED:
                self._rule = str(fl_ctx.get_prop(FLContextKey.EVENT_ORIGIN, ""))
            elif event_type == EventType.AFTER_TASK_DATA_FILTER:
                if fl_ctx.get_prop(FLContextKey.TASK_NAME) == self.task:
                    self._send(fl_ctx)
            elif event_type == AppEventType.AFTER_AGGREGATION:
                made = fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT)
                metrics = made.metrics if isinstance(made, FLModel) else None
                self._metrics = metrics if isinstance(metrics, dict) else {}
            elif event_type == AppEventType.AFTER_SHAREABLE_TO_LEARNABLE:
                self._finish(fl_ctx.get_prop(AppConstants.GLOBAL_MODEL))

    def _take(self, fl_ctx: FLContext) -> None:
        """Take the folder, or end the job."""
        try:
            self._recording.take()
        except DivulgeError as error:
            self.system_panic(f"the run cannot be recorded: {error}", fl_ctx)

    def _send(self, fl_ctx: FLContext) -> None:
        """Note what one client is sent: the first client of a round begins it."""
        task = fl_ctx.get_prop(FLContextKey.TASK_DATA)
        number = task.get_header(AppConstants.CURRENT_ROUND)
        if not self._recording.begun:
            try:
                sent = self._read_sent(task)
                self._recording.begin(self._header(sent, task), sent)
            except DivulgeError as error:
                self.system_panic(f"the run cannot be recorded: {error}", fl_ctx)
                return
        with self._recording.contain_errors():
            sent = self._read_sent(task)
            if self._recording.open and number == self._round:
                self._recording.check_sent(sent)
            else:
                self._finish(None)  # a controller that did not say what it made of the round
                copies = {name: value.copy() for name, value in sent.items()}
                self._recording.start_round(copies, self._known)
                self._round, self._asked = number, {}
            client = str(fl_ctx.get_peer_context().get_identity_name())
            self._asked[str(fl_ctx.get_prop(FLContextKey.TASK_ID))] = client

    def _read_sent(self, task: Shareable) -> dict[str, np.ndarray]:
        return records.read_tensors(task, DataKind.WEIGHTS)

    def _header(self, sent: Tensors, task: Shareable) -> Header:
        settings: dict[str, JSON] = {"framework": f"nvflare {version('nvflare')}"}
        rounds = task.get_header(AppConstants.NUM_ROUNDS)
        if isinstance(rounds, int):
            settings["rounds"] = rounds
        return Header(
            name=self.federation,
            kind=self.kind,
            shapes={name: value.shape for name, value in sent.items()},
            rule=self._rule,
            settings=settings,
        )

    def _receive(self, result: Shareable, fl_ctx: FLContext) -> None:
        client = self._asked.get(str(fl_ctx.get_prop(FLContextKey.TASK_ID)))
        if client is None:
            log.info("a result that is for none of this round's tasks is not recorded")
            return
        if records.has_failed(result):
            return
        count = records.number_of_records(result, self.records_key)
        read = partial(records.read_tensors, result, KINDS[self.kind])
        self._recording.receive(client, read, count, copy=True)

    def _finish(self, model: ModelLearnable | None) -> None:
        def read() -> Tensors | None:
            if model is None:
                return None
            return records.as_tensors(model[ModelLearnableKey.WEIGHTS])

        with self._recording.contain_errors():
            self._recording.finish_round(read, self._metrics)
        self._asked, self._metrics = {}, {}

    def _end(self) -> None:
        """Write a round that was not finished, if a client answered in it."""
        if self._recording.answered:
            self._finish(None)
        self._recording.release()
        if self.error is not None:
            log.error("the transcript in %s ends early: %s", self.folder, self.error)


def _read_training(settings: dict[str, Any]) -> LocalTraining:
    for name in settings.keys() - LocalTraining.__dataclass_fields__.keys():
        hint = did_you_mean(str(name), LocalTraining.__dataclass_fields__)
        raise SpecError(f"expected settings of local training, got {name!r}: {hint}")
    try:
        return pydantic.TypeAdapter(LocalTraining).validate_python(settings)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SpecError(
            f"expected settings of local training, got {first['input']!r} for "
            f"{first['loc'][0]}: {first['msg']}"
        ) from error
