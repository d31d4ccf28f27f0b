"""Provide a Flower mod that tests a client's own update before it is sent."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Literal, get_args

from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode

from divulge._util.contents import quote_error
from divulge._util.json import Settings
from divulge.core import ClientContext, LocalTraining, NoiseSource, RoundContext
from divulge.defences.noise import SecureNoise
from divulge.defences.updates.local_dp import LocalNoise
from divulge.errors import DataError, SpecError, did_you_mean
from divulge.federation.client_checks.base import LeakTest, Outgoing
from divulge.federation.client_checks.composition import ClassMix
from divulge.federation.flower import records

log = logging.getLogger(__name__)

Action = Literal["warn", "refuse"]


@dataclasses.dataclass(frozen=True)
class Guardrail:
    """Tests each update before it is sent; warns, adds noise or refuses when it leaks too much.

    What a test finds goes to the client's own log, and nowhere else. With ``refuse`` the server
    gets an error that is the same whatever the reason; that there is one tells it something all
    the same. It gets that error, too, where the client's own code raises an exception or replies
    with an error, whose texts may quote records. An update that cannot be tested leaves with
    ``warn`` only, and is refused otherwise.

    Noise that is added only to updates that need it carries no privacy guarantee, since whether it
    is added depends on the data. For a guarantee every update needs noise.

    Args:
        limit: highest score that passes, from 0 to 1.
        above: action above the limit: ``warn`` only, ``refuse``, or the noise to add.
        tests: leak tests by name; the default infers the class mix.
        training: settings of the training that the server knows beyond the configuration of the
            run and of the round; this is searched for ``lr``, ``epochs``, ``batch-size`` and so
            on.
        records_key: key under which the reply gives the number of records.
        noise: source of the noise; the default cannot be drawn again, which a seeded one can.

    Raises:
        SpecError: the limit is not in [0, 1], the action is none of these, or there is no test.
    """

    limit: float
    above: Action | LocalNoise = "warn"
    tests: Mapping[str, LeakTest] = dataclasses.field(
        default_factory=lambda: {"class mix": ClassMix()}
    )
    training: LocalTraining = dataclasses.field(default_factory=LocalTraining)
    records_key: str = "num-examples"
    noise: NoiseSource = dataclasses.field(default_factory=SecureNoise)

    def __post_init__(self) -> None:
        if not 0 <= self.limit <= 1 or not self.tests:
            raise SpecError(
                f"expected a limit from 0 to 1 and a test, got {self.limit} and "
                f"{len(self.tests)} tests: choose what may leave"
            )
        if not isinstance(self.above, LocalNoise) and self.above not in get_args(Action):
            hint = did_you_mean(str(self.above), get_args(Action))
            raise SpecError(
                f"expected warn, refuse or a LocalNoise as above, got {self.above!r}: {hint}"
            )

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Let the client work, and test what it trained."""
        before = records.copy_records(context.state)
        try:
            return self._reply(message, context, call_next)
        except Exception:  # Flower would send its text, which may quote records, to the server
            log.exception("the client failed; the server is told no more than that")
            context.state = before  # as Flower has it after a failure
            return _refusal(message)

    def _reply(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        sent = records.copy_records(message.content)  # the client may change the message
        reply = call_next(message, context)
        if reply.has_error():
            log.warning("the client failed; the server is told no more than that: %s", reply.error)
            return _refusal(message)
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return reply
        settings = {**context.run_config, **records.read_config(sent)}
        try:
            outgoing = self._read_outgoing(sent, reply.content, settings)
            failures = self._failed_tests(outgoing)
        except DataError as error:
            log.warning(
                "an update cannot be tested; %s: %s", self._consequence("it is refused"), error
            )
            return reply if self.above == "warn" else _refusal(message)
        if not failures:
            return reply
        log.warning("an update leaks %s; limit %.3g; %s", failures, self.limit, self._consequence())
        if self.above == "warn":
            return reply
        if self.above == "refuse":
            return _refusal(message)
        try:
            return self._add_noise(reply, outgoing, context, self.above)
        except DataError as error:
            log.warning("no noise can be added, so the update is refused: %s", error)
            return _refusal(message)

    def _read_outgoing(self, sent: RecordDict, reply: RecordDict, settings: Settings) -> Outgoing:
        before, after = records.read_tensors(sent), records.read_tensors(reply)
        if {k: v.shape for k, v in before.items()} != {k: v.shape for k, v in after.items()}:
            raise DataError(
                "expected the names and shapes of the weights that came in, got others: "
                "reply with all weights, and not with changes"
            )
        numbers = [name for name, value in after.items() if value.dtype.kind == "f"]
        return Outgoing(
            update={name: after[name] - before[name] for name in numbers},
            sent=before,
            records=records.number_of_records(reply, self.records_key),
            training=records.read_local_training(settings, self.training),
        )

    def _failed_tests(self, outgoing: Outgoing) -> str:
        """Names and scores of the tests that the update fails, in words; empty if it passes."""
        failed: list[str] = []
        for name, test in self.tests.items():
            try:
                score = float(test(outgoing))
            except DataError:
                raise
            except Exception as error:  # what a user's test may raise is not ours to choose
                raise DataError(
                    f"expected a score for {name}, got {type(error).__name__}: "
                    f"{quote_error(error)}: mend it"
                ) from error
            if not score <= self.limit:  # NaN does not pass either
                failed.append(f"{name}, score {score:.3g}")
        return "; ".join(failed)

    def _add_noise(
        self, reply: Message, outgoing: Outgoing, context: Context, noise: LocalNoise
    ) -> Message:
        """Add noise to all floating-point tensors of the reply; counters stay as they are."""
        shapes = {name: value.shape for name, value in outgoing.update.items()}
        about = RoundContext(0, (context.node_id,), shapes)
        client = ClientContext(about, context.node_id, self.noise)
        noisy = noise.on_client(outgoing.update, client)
        arrays = records.read_tensors(reply.content)
        for name, change in noisy.items():
            arrays[name] = (outgoing.sent[name] + change).astype(arrays[name].dtype)
        (key,) = reply.content.array_records
        reply.content[key] = records.array_record(arrays)
        return reply

    def _consequence(self, otherwise: str = "noise is added") -> str:
        words = {"warn": "it leaves all the same", "refuse": "it is refused"}
        return words[self.above] if isinstance(self.above, str) else otherwise


def _refusal(message: Message) -> Message:
    reason = "this client does not take part in this round"
    return Message(Error(ErrorCode.UNKNOWN, reason), reply_to=message)
