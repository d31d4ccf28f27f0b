"""Chain several update defences into one, or use none at all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any, ClassVar

from divulge._util.arguments import check_arguments
from divulge.core import ClientContext, Guarantee, RoundContext, ServerView, Update, UpdateDefence
from divulge.defences.updates import vectors
from divulge.defences.updates.dp_fedavg import DPFedAvg
from divulge.defences.updates.secure_aggregation import SecureSum
from divulge.errors import DataError, SpecError


def no_defence() -> UpdateDefence:
    """The defence that changes nothing.

    Examples:
        >>> no_defence().name
        'none'
    """
    return UpdateDefence()


@check_arguments
def chain(*defences: UpdateDefence) -> UpdateDefence:
    """One defence after the other: client hooks in order, server hooks in reverse.

    Args:
        defences: the defences, in the order in which an update passes them on its client; chains
            are flattened.

    Raises:
        SpecError: a defence stands twice, behind one whose messages are not numbers any more, or
            behind one whose promise is for a sum that it would change.

    Examples:
        >>> chain(no_defence(), no_defence()).name
        'none'
    """
    flat = [
        part
        for defence in defences
        for part in (defence.parts if isinstance(defence, Chain) else (defence,))
        if part.name != "none"
    ]
    if len(flat) < 2:
        return flat[0] if flat else no_defence()
    return Chain(tuple(flat))


@dataclass(frozen=True, slots=True)
class Chain(UpdateDefence):
    """What ``chain`` returns for two or more defences."""

    parts: tuple[UpdateDefence, ...]

    name: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        for name in names:
            if names.count(name) > 1:
                raise SpecError(
                    f"expected each defence once in a chain, got {name} {names.count(name)} times: "
                    "use one with the settings that you want"
                )
        for part, after in pairwise(self.parts):
            if part.masks:
                raise SpecError(
                    f"expected {part.name} last in a chain, got {after.name} behind it: masked "
                    f"values cannot be clipped, rounded or compared, so put {after.name} before "
                    f"{part.name}"
                )
            if isinstance(part, DPFedAvg) and not after.masks:
                raise SpecError(
                    f"expected {part.name} last in a chain, or only a secure sum behind it, got "
                    f"{after.name}: it would change the sum that the promise is for, so put "
                    f"{after.name} before {part.name}"
                )

    @property
    def masks(self) -> bool:
        """Whether the last part does."""
        return self.parts[-1].masks

    @property
    def weighs_equally(self) -> bool:
        """Whether a part asks for it."""
        return any(part.weighs_equally for part in self.parts)

    @property
    def personal(self) -> bool:
        """Whether a part makes them so."""
        return any(part.personal for part in self.parts)

    def announce(self) -> tuple[Any, bytes]:
        """The announcement of the last part: no other one may need any."""
        return self.parts[-1].announce()

    def on_client(self, update: Update, context: ClientContext) -> Update:
        """Through all client hooks in order.

        Raises:
            DataError: see the hooks; where something is promised, only for names, shapes and types.
            SpecError: a secure sum cannot hold the noise in front of it.
        """
        if self.weighs_equally:
            context = replace(context, weight=1 / len(context.round.participants))
        promised = next((k for k, part in enumerate(self.parts) if part.promises), 0)
        before, after = self.parts[:promised], self.parts[promised:]
        try:
            update = _pass_on(before, update, context)
        except DataError:  # by what the numbers are, unless zeros are refused as well
            update = _pass_on(before, vectors.zeros_like(update), context)
        return _pass_on(after, update, context)

    def on_server(self, view: ServerView, context: RoundContext) -> ServerView:
        """Through all server hooks in reverse."""
        for part in reversed(self.parts):
            view = part.on_server(view, context)
        return view

    def guarantee(self, rounds: int = 1) -> Guarantee | None:
        """That of the part which promises one: nothing that is done before or after weakens it."""
        promised = [part.guarantee(rounds) for part in self.parts]
        return next((each for each in promised if each is not None), None)

    def noise_deviation(self, clients: int) -> float | None:
        """That of the part which adds noise; None where another part changes the update besides."""
        known = [part.noise_deviation(clients) for part in self.parts]
        others = [part for part, each in zip(self.parts, known, strict=True) if each is None]
        if len(others) + 1 < len(self.parts) or not all(part.masks for part in others):
            return None
        return next((each for each in known if each is not None), None)


def _pass_on(parts: Sequence[UpdateDefence], update: Update, context: ClientContext) -> Update:
    for part, behind in zip_longest(parts, parts[1:]):
        update = part.on_client(update, context)
        if isinstance(part, DPFedAvg) and isinstance(behind, SecureSum):
            update = _fit_fixed_point(part, behind, update, context)
    return update


def _fit_fixed_point(
    noise: DPFedAvg, behind: SecureSum, update: Update, context: ClientContext
) -> Update:
    """What the secure sum can round and add up without a change of what is promised."""
    count, weight = len(context.round.participants), context.weight
    what = "entries of secure-sum over a client's weight"
    noise.check_numbers(count, behind.limit / weight, behind.step / weight, what)
    # with noise in it an update is rounded to the nearest, such that the error has no direction
    return behind.shrink(update, weight) if noise.noise_by == "server" else update
