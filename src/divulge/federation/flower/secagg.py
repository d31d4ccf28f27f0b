"""Provide a Flower workflow that records what SecAgg+ shows the server: sums alone."""

import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.common import FitIns, FitRes, Parameters, parameters_to_ndarrays
from flwr.server.client_manager import ClientManager
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow, constant
from flwr.serverapp import Grid

from divulge._util.json import JSON
from divulge.core import LocalTraining, Tensors
from divulge.errors import SpecError
from divulge.federation.canaries import ROUNDING, CanaryClients
from divulge.federation.flower import records
from divulge.federation.flower.recorder import UNKNOWN_TRAINING
from divulge.federation.flower.wrappers import intercept
from divulge.federation.transcript.layout import Header
from divulge.federation.transcript.recording import Recording, as_count

log = logging.getLogger(__name__)

_SETTINGS = (
    "num_shares", "reconstruction_threshold", "max_weight", "clipping_range",
    "quantization_range", "modulus_range",
)  # fmt: skip


class SecAggRecorder:
    """Wraps Flower's SecAgg or SecAgg+ workflow, and writes a transcript while the run goes on.

    Use it as the ``fit_workflow`` of Flower's ``DefaultWorkflow``. It changes nothing. The
    transcript holds of each round the weights sent, the mean that the protocol shows the server,
    the clients that it is of, and the new weights that the strategy makes of it: no single update.
    A round whose protocol is halted has no mean and no new weights.

    Weights have no names in the legacy API: in the transcript they are called ``0``, ``1``, and so
    on. When it cannot write, it does what `Recorder` does. The folder is locked until the last
    round.

    Args:
        workflow: Flower's ``SecAggPlusWorkflow`` or ``SecAggWorkflow``.
        folder: new folder for the transcript.
        name: name of the federation in the transcript.
        training: settings of local training that the server knows beyond the configuration that
            is sent.
        canaries: canary clients that take part, see `CanaryMod`.

    Raises:
        SpecError: it is another workflow, under which a server sees single updates.
    """

    def __init__(
        self,
        workflow: Callable[[Grid, Context], None],
        folder: str | Path,
        *,
        name: str = "flower",
        training: LocalTraining = UNKNOWN_TRAINING,
        canaries: CanaryClients | None = None,
    ) -> None:
        if not isinstance(workflow, SecAggPlusWorkflow):
            raise SpecError(
                "expected a SecAggPlusWorkflow or SecAggWorkflow, got "
                f"{type(workflow).__name__}: record strategies of the message API with Recorder"
            )
        self.workflow = workflow
        self.folder = Path(folder)
        self._recording = Recording(self.folder)
        self._name, self._training, self._canaries = name, training, canaries

    @property
    def error(self) -> Exception | None:
        """What ended the recording before its time; None if nothing did."""
        return self._recording.error

    def __call__(self, grid: Grid, context: Context) -> None:
        """Run the protocol of one round.

        Raises:
            StoreError: the transcript cannot be begun.
            DataError: there is something in the first weights that no transcript can hold.
        """
        if not isinstance(context, LegacyContext):  # Flower says what it expects
            return self.workflow(grid, context)
        try:
            with intercept(context.strategy, self._listeners(context)):
                self.workflow(grid, context)
        except BaseException:
            self._recording.release(*sys.exc_info())
            raise
        with self._recording.contain_errors():  # the protocol was halted
            self._recording.finish_round(lambda: None, {})
        config = context.state.config_records[constant.MAIN_CONFIGS_RECORD]
        if config[constant.Key.CURRENT_ROUND] == context.config.num_rounds:
            self._recording.release()
            if self.error is not None:
                log.error("the transcript in %s ends early: %s", self.folder, self.error)
        return None

    def _listeners(self, context: LegacyContext) -> Mapping[str, Any]:
        """Methods to take the place of the strategy's own, which they call."""
        configure, aggregate = context.strategy.configure_fit, context.strategy.aggregate_fit

        def configure_fit(
            server_round: int, parameters: Parameters, client_manager: ClientManager
        ) -> Any:
            instructions = configure(server_round, parameters, client_manager)
            if instructions and self.error is None:
                self._read_sent([fit for _, fit in instructions], context)
            return instructions

        def aggregate_fit(server_round: int, results: Any, failures: Any) -> Any:
            made: Parameters | None = None
            metrics: Mapping[str, Any] | None = None
            rounding = math.nan
            with self._recording.contain_errors():  # before the strategy, which may change them
                rounding = self._read_sum(results)
            try:
                made, metrics = aggregate(server_round, results, failures)
            finally:
                with self._recording.contain_errors():
                    self._recording.finish_round(
                        lambda: None if made is None else _tensors(made),
                        {**(metrics or {}), ROUNDING: rounding},
                    )
            return made, metrics

        return {"configure_fit": configure_fit, "aggregate_fit": aggregate_fit}

    def _read_sent(self, instructions: Sequence[FitIns], context: LegacyContext) -> None:
        first = instructions[0]
        sent = _tensors(first.parameters)
        if not self._recording.begun:
            self._begin(sent, first, context)
        with self._recording.contain_errors():
            training = records.read_local_training(first.config, self._training)
            self._recording.start_round(sent, training)
            for further in instructions[1:]:
                if further.parameters is not first.parameters:
                    self._recording.check_sent(_tensors(further.parameters))

    def _begin(self, sent: Tensors, first: FitIns, context: LegacyContext) -> None:
        protocol: dict[str, JSON] = {name: getattr(self.workflow, name) for name in _SETTINGS}
        settings: dict[str, JSON] = {
            "framework": records.FRAMEWORK,
            "config": {k: v for k, v in first.config.items() if not isinstance(v, bytes)},
            "rounds": context.config.num_rounds,
            "secure aggregation": {"workflow": type(self.workflow).__name__, **protocol},
        }
        if self._canaries is not None:
            settings["canaries"] = self._canaries.digest
        header = Header(
            name=self._name,
            kind="weights",
            shapes={name: value.shape for name, value in sent.items()},
            rule=type(context.strategy).__name__,
            settings=settings,
        )
        self._recording.begin(header, sent)

    def _read_sum(self, results: Sequence[tuple[Any, FitRes]]) -> float:
        """Note the mean, and say how far rounding may put an entry of it off.

        Each client rounds its weights, times its number of records over ``max_weight``, to whole
        numbers at random: a variance of 1/4 at most.
        """
        counts = [as_count(reply.num_examples) for _, reply in results]
        known = [count for count in counts if count is not None]
        total = sum(known) if len(known) == len(counts) else None
        clients = [str(proxy.node_id) for proxy, _ in results]
        # the workflow gives every client's reply the mean
        self._recording.receive_sum(clients, _tensors(results[0][1].parameters), total)
        unit = self.workflow.clipping_range / self.workflow.quantization_range
        weight = (total or math.nan) / self.workflow.max_weight
        return unit * math.sqrt(len(results)) / weight


def _tensors(parameters: Parameters) -> Tensors:
    return {str(at): array for at, array in enumerate(parameters_to_ndarrays(parameters))}
