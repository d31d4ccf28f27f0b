"""The games that controls play: a leak that is planted, and answers that are shuffled."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from divulge._util.random import stream
from divulge.core import Game, Membership, ModelView, Target
from divulge.secrets import attempt
from divulge.secrets.control_targets.neighbourhoods import OtherFeatures
from divulge.secrets.control_targets.planted import PlantedTarget
from divulge.secrets.control_targets.shuffled import ShuffledTarget

_KEPT_LOSS = 0.1
"""Share of its first loss that a record has once a planted leak has memorised it."""

ModelGame = Game[ModelView, Membership]


class ControlGames:
    """The games of both controls, each made when it is first needed, for all attacks.

    Their targets remember what they answered about the candidates: the next attack need not wait,
    nor need the next rule for people, as ``scores`` remembers what an attack gave records.
    """

    def __init__(self) -> None:
        self._of: tuple[ModelGame, int] | None = None
        self._made: dict[str, ModelGame] = {}
        self.scores = attempt.SharedScores()

    def planted(self, challenge: ModelGame, seed: int) -> ModelGame:
        """See `plant_leak`."""
        self._forget_others(challenge, seed)
        if "planted" not in self._made:
            self._made["planted"] = plant_leak(challenge, seed)
        return self._made["planted"]

    def shuffled(self, challenge: ModelGame, seed: int) -> ModelGame:
        """See `shuffle_predictions`."""
        self._forget_others(challenge, seed)
        if "shuffled" not in self._made:
            self._made["shuffled"] = shuffle_predictions(challenge, seed)
        return self._made["shuffled"]

    def _forget_others(self, challenge: ModelGame, seed: int) -> None:
        if self._of is None or self._of[0] is not challenge or self._of[1] != seed:
            self._of, self._made = (challenge, seed), {}


def shuffle_predictions(challenge: ModelGame, seed: int = 0) -> ModelGame:
    """The same candidates and truth before a model that answers about another candidate."""
    view = challenge.view
    ways, rng = (view.records, *view.augmented), stream(seed, "shuffled answers")
    target = ShuffledTarget(view.target, ways, rng, view.known, others=_no_candidates(view))
    trace = view.loss_trace
    if trace is not None:
        trace = stream(seed, "shuffled traces").permutation(trace)
    view = _with_target(view, target, trace)
    return dataclasses.replace(challenge, view=view)


def plant_leak(challenge: ModelGame, seed: int = 0) -> ModelGame:
    """The same candidates before a model that leaks a random half of them on purpose.

    Where candidates are people, it leaks all records of a random half of the people.
    It leaks the members that the attacker knows as well, who could not learn from them otherwise.
    """
    records, person = challenge.view.records, challenge.view.records.people
    chosen = stream(seed, "planted leak").random(len(challenge.truth.member)) < 0.5
    chosen[:2] = True, False  # both groups exist, however few the candidates
    memorised = chosen if person is None else chosen[person]
    ways, known = (records, *challenge.view.augmented), challenge.view.known
    known_members = () if challenge.view.known_members is None else (challenge.view.known_members,)
    others = _no_candidates(dataclasses.replace(challenge.view, known_members=None))
    target = PlantedTarget(
        challenge.view.target,
        # the array itself, where it is one, is recognised without hashing
        records.x
        if len(ways) + len(known_members) == 1
        else np.concatenate([w.x for w in (*ways, *known_members)]),
        records.y
        if len(ways) + len(known_members) == 1
        else np.concatenate([w.y for w in (*ways, *known_members)]),
        np.concatenate(
            [memorised] * len(ways) + [np.ones(len(members), bool) for members in known_members]
        ),
        seed,
        others=None if known is not None else others,
        known=None if known is None else np.concatenate([known] * len(ways)),
    )
    trace = challenge.view.loss_trace
    if trace is not None:
        trace = _plant_in_traces(trace, memorised)
    return Game(_with_target(challenge.view, target, trace), Membership(chosen))


def _with_target(
    view: ModelView, target: Target, trace: Float[np.ndarray, "records moments"] | None
) -> ModelView:
    """The view with another model; few further shadows show whether an attack works."""
    further = None if view.conditional is None else view.conditional.fewer()
    return dataclasses.replace(view, target=target, loss_trace=trace, conditional=further)


def _plant_in_traces(
    trace: Float[np.ndarray, "records moments"], memorised: Bool[np.ndarray, " records"]
) -> Float[np.ndarray, "records moments"]:
    """The losses of a model that stays as it began, and then learns the memorised records alone."""
    later = np.arange(trace.shape[1]) >= trace.shape[1] // 2
    learned = memorised[:, None] & later
    return np.asarray(np.where(learned, _KEPT_LOSS, 1.0) * trace[:, :1])


def _no_candidates(view: ModelView) -> tuple[OtherFeatures, ...] | None:
    """Features of the records that are no candidates: who asks about one means that one.

    None where records are no numbers: then nobody can ask about a perturbed candidate.
    """
    if view.records.x.dtype.kind == "S":
        return None
    no_candidates = (view.reference, view.own, view.known_members)
    return tuple(records.x for records in no_candidates if records is not None)
