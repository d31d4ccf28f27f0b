"""Provide a Flower mod that lets some nodes be canary clients."""

import dataclasses
from collections.abc import Mapping

from flwr.app import Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from divulge.core import Tensors
from divulge.errors import SpecError
from divulge.federation.canaries import CanaryClients
from divulge.federation.flower import records

_RECORDS = "num-examples"


@dataclasses.dataclass(frozen=True)
class CanaryMod:
    """Replies with a secret direction on nodes that are canaries; other nodes work as ever.

    Put it last in ``mods``, so that mods that clip, add noise or mask change canaries like all
    updates. The node with ``partition-id`` = ``first`` is the first canary of the trainer's file,
    the next one the second, and so on.

    A canary node refuses all but training: what others evaluate is not changed by it.

    Args:
        canaries: the canary clients that take part.
        first: the first partition that is a canary: how many other nodes there are.
        metrics: what a canary's reply says besides the weights: the keys of the other clients'
            replies, with numbers; the number of records among them. To a server of the legacy
            API it is said as ``num_examples``.
        metrics_key: the name of the record of metrics in the other clients' replies.

    Raises:
        SpecError: ``first`` is negative.
    """

    canaries: CanaryClients
    first: int
    metrics: Mapping[str, int | float] = dataclasses.field(default_factory=lambda: {_RECORDS: 1})
    metrics_key: str = "metrics"

    def __post_init__(self) -> None:
        if self.first < 0:
            raise SpecError(
                f"expected first from 0, got {self.first}: how many nodes are no canaries"
            )

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Reply for a canary; pass the message on otherwise."""
        number = int(context.node_config.get("partition-id", -1)) - self.first
        if not 0 <= number < len(self.canaries):
            return call_next(message, context)
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            reason = "this client takes part in training alone"
            return Message(Error(ErrorCode.UNKNOWN, reason), reply_to=message)
        sent = records.read_tensors(message.content)
        update = self.canaries.update(number, sent)
        weights = {
            name: (value + update[name]).astype(value.dtype) if name in update else value
            for name, value in sent.items()
        }
        return Message(self._content(message, weights), reply_to=message)

    def _content(self, message: Message, weights: Tensors) -> RecordDict:
        """A reply with these weights, in the API of the server that asked."""
        (key,) = message.content.array_records
        if key == records.FIT_INS:
            others = {name: n for name, n in self.metrics.items() if name != _RECORDS}
            return records.fit_result(weights, int(self.metrics.get(_RECORDS, 1)), others)
        return RecordDict({
            key: records.array_record(weights),
            self.metrics_key: MetricRecord(dict(self.metrics)),
        })  # fmt: skip
