"""Provide a Flower mod that tests a client's own local differential privacy by canaries."""

import copy
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from divulge.core import Tensors
from divulge.data.canary_scores import CanaryScores, write_scores
from divulge.errors import DataError, SpecError
from divulge.federation.canaries import CanaryClients
from divulge.federation.flower import records

log = logging.getLogger(__name__)


@dataclass
class _Look:
    """One look at the mods between the two places of a probe."""

    own: RecordDict | None = None
    """What the client replies by itself, before the mods change it."""
    number: int | None = None
    """The canary that is tried; None while the client itself works."""


_LOOK: ContextVar[_Look | None] = ContextVar("look", default=None)


class CanaryProbe:
    """Puts canaries into copies of a client's own update, and sees what its mods leave of them.

    Name it twice in ``mods``: before the mods that clip and add noise, and behind them. In the
    first round of training the client works as ever. Then the mods in between run again for each
    canary, on the client's own update and the canary's secret direction or the opposite of it, as
    a coin says. These copies are never sent. How much each shows of its direction is written to a
    file of scores, for `audit_canaries`: is the ε that is stated for one message kept?

    The mods in between get copies of the message and of the context. They must not talk to others,
    and draw noise anew in each call; later rounds draw other random numbers than without a probe.
    What fails here is logged, and does not change the reply.

    Args:
        canaries: canary clients with ``neighbours="replace"``, for this client alone.
        path: the ``.npz`` file to write; while it is there nothing is tried.

    Raises:
        SpecError: they are canaries of which only some take part.
    """

    def __init__(self, canaries: CanaryClients, path: str | Path) -> None:
        if canaries.neighbours != "replace":
            raise SpecError(
                "expected canary clients with neighbours='replace', got 'add-or-remove': local "
                "noise is for another update of one client"
            )
        self._canaries = canaries
        self._path = Path(path)

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Let the client work, and try canaries in the first round."""
        look = _LOOK.get()
        if look is not None:
            return self._behind(look, message, context, call_next)
        train = message.metadata.message_type.split(".")[0] == MessageType.TRAIN
        if not train or self._path.exists():
            return call_next(message, context)
        look, call = _Look(), copy.deepcopy((message, context))
        token = _LOOK.set(look)
        try:
            reply = call_next(message, context)
            if reply.has_content():
                self._try(look, call, call_next)
            return reply
        finally:
            _LOOK.reset(token)

    def _try(
        self, look: _Look, call: tuple[Message, Context], call_next: ClientAppCallable
    ) -> None:
        try:
            sent = records.read_tensors(call[0].content)
            score = self._canaries.score(sent, self._replies(look, call, call_next))
            write_scores(self._path, CanaryScores(score, "white", self._canaries.digest, "", 1))
        except Exception:  # the training is worth more
            log.exception("no canaries were tried; the reply is sent as ever")

    def _replies(
        self, look: _Look, request: tuple[Message, Context], call_next: ClientAppCallable
    ) -> Iterator[Tensors]:
        if look.own is None:
            raise SpecError("expected the probe twice in mods, got it once: put it last, too")
        for number in range(len(self._canaries)):
            look.number = number
            reply = call_next(*copy.deepcopy(request))
            if not reply.has_content():
                raise DataError(f"expected a reply with canary {number}, got {reply.error}")
            yield records.read_tensors(reply.content)

    def _behind(
        self, look: _Look, message: Message, context: Context, call_next: ClientAppCallable
    ) -> Message:
        if look.number is None:
            reply = call_next(message, context)
            if reply.has_content():
                look.own = records.copy_records(reply.content)
            return reply
        assert look.own is not None
        content = records.copy_records(look.own)
        own = records.read_tensors(content)
        canary = self._canaries.update(look.number, own)
        (key,) = content.array_records
        content[key] = records.array_record(
            {name: (own[name] + canary.get(name, 0)).astype(own[name].dtype) for name in own}
        )
        return Message(content, reply_to=message)
