"""Shuffle a target's answers among the candidates, for the control that must find nothing."""

from collections.abc import Callable, Generator
from functools import partial
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from divulge.core import Need, Records, Target, stream_answers
from divulge.core.tokens import Tokens, as_token_target
from divulge.secrets.control_targets.neighbourhoods import (
    NOBODY,
    KnownParts,
    Neighbourhoods,
    OtherFeatures,
)
from divulge.targets.cache import RecentAnswers, holds_answers, record_keys
from divulge.targets.logits import read_logits
from divulge.targets.look_through import LookThrough

_UNKNOWN = NOBODY
CandidatePositions = Int[np.ndarray, " records"]
Features = Shaped[np.ndarray, " records *features"]


@final
class ShuffledTarget(LookThrough):
    """A target that answers about another candidate than the one asked about.

    A random permutation of the candidates is drawn once. Asked about candidate i, the target
    answers about candidate π(i), with the columns of the two true classes swapped, so that the
    probability of the true class stays one. A model that answers values is off from candidate i
    by as much as it is from π(i): the answer is y_i + f(x_π(i)) - y_π(i). Given its answers alone,
    membership is independent of them. Records that are no candidates are answered as they are,
    unless `others` are given.

    Args:
        target: the target whose answers are shuffled.
        ways: the candidates as the attacker sees them, and seen otherwise, in one order.
        rng: draws the permutation.
        known: which features of the candidates are known. A question is about the candidate
            that it agrees with in these: an attack may try any values for the others.
        chosen: which candidates change places; all, unless given.
        others: features of all records that an attack may ask about and that are no candidates.
            Any further question is then about the candidate that it is nearest to, and is changed
            as that candidate was: an attack may perturb a candidate in any way.
    """

    def __init__(
        self,
        target: Target,
        ways: tuple[Records, ...],
        rng: np.random.Generator,
        known: Bool[np.ndarray, "candidates *features"] | None = None,
        chosen: Bool[np.ndarray, " candidates"] | None = None,
        others: tuple[OtherFeatures, ...] | None = None,
    ) -> None:
        self._target = target
        self._ways = ways
        self._y = ways[0].y
        self._order = np.arange(len(self._y))
        moved = np.flatnonzero(np.ones(len(self._y), bool) if chosen is None else chosen)
        self._order[moved] = rng.permutation(moved)
        partial = known is not None and not known.all()
        self._known = known if partial else None
        self._parts = KnownParts(ways[0].x, known) if known is not None and partial else None
        self._keys: dict[bytes, tuple[int, int]] | None = None
        self._recent = RecentAnswers[np.ndarray]()
        self._recent_tokens = RecentAnswers[Tokens](most=1)
        self._around = (
            None
            if others is None or partial
            else Neighbourhoods(
                np.concatenate([way.x for way in ways]) if len(ways) > 1 else ways[0].x, others
            )
        )

    @property
    def offers(self) -> Need:
        """What the answers allow."""
        return self._target.offers

    def predict(self, x: Features) -> Float[np.ndarray, "records classes"]:
        """The inner target's answers about the records that stand for these.

        Raises:
            TargetError: the inner target failed.
        """
        known = self._recent.find(x)
        if known is not None:
            return known
        return self._recent.remember(x, self._shuffle(self._target.predict, x))

    def stream(
        self, x: Features
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The same by parts, of a table of answers; else all at once.

        Raises:
            TargetError: see `predict`.
        """
        if not holds_answers(self.offers):
            yield np.arange(len(x)), self.predict(x)
            return
        if x is self._ways[0].x:
            exchanged, place = x[self._order], np.arange(len(x))
        else:
            exchanged, place = self._substitute_candidates(x)
        for part, answers in stream_answers(self._target, exchanged):
            yield part, self._carry_over(answers.copy(), place[part])

    def logits(self, x: Features) -> Float[np.ndarray, "records classes"]:
        """As `predict`, of what `read_logits` reads of the inner target.

        Raises:
            TargetError: the inner target failed.
        """
        return self._shuffle(partial(read_logits, self._target), x)

    def tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Tokens:
        """What the inner target says of the tokens of the texts that stand for these.

        Raises:
            NotApplicable: the inner target is no language model.
        """
        if after is None and (known := self._recent_tokens.find(x)) is not None:
            return known
        tokens = as_token_target(self._target).tokens(self._substitute_candidates(x)[0], after)
        if after is not None:
            return tokens
        return self._recent_tokens.remember(x, tokens)

    def _shuffle(
        self, ask: Callable[[Features], Float[np.ndarray, "records classes"]], x: Features
    ) -> Float[np.ndarray, "records classes"]:
        for way in self._ways:
            if x is way.x:  # as most attacks ask: the inner target knows this array
                return self._carry_over(ask(x)[self._order], np.arange(len(x)))
        exchanged, place = self._substitute_candidates(x)
        return self._carry_over(ask(exchanged).copy(), place)

    def _pass_on(
        self, x: Features, y: Int[np.ndarray, " records"] | None = None
    ) -> tuple[Features, Int[np.ndarray, " records"] | None]:
        """The records that stand for these, with their own classes."""
        exchanged, place = self._substitute_candidates(x)
        if y is None:
            return exchanged, None
        return exchanged, np.where(place == _UNKNOWN, y, self._y[self._order[place]])

    def _substitute_candidates(self, x: Features) -> tuple[Features, CandidatePositions]:
        """What is asked in place of these records, and which candidate each row is about."""
        exchanged = x.copy()
        if self._known is not None and self._parts is not None:
            place = self._parts.find(x)
            rows = np.flatnonzero(place != _UNKNOWN)
            at, other = place[rows], self._order[place[rows]]
            exchanged[rows] = np.where(self._known[at], self._ways[0].x[other], x[rows])
            return exchanged, place
        place, keys = np.full(len(x), _UNKNOWN), record_keys(x)
        for row, key in enumerate(keys):
            if key in self._by_content:
                way, place[row] = self._by_content[key]
                exchanged[row] = self._ways[way].x[self._order[place[row]]]
        if self._around is not None:
            rows = np.flatnonzero(place == _UNKNOWN)
            near = self._around.nearest(x[rows], [keys[row] for row in rows])
            rows, near = rows[near != NOBODY], near[near != NOBODY]
            way, place[rows] = np.divmod(near, len(self._order))
            stands_in = way * len(self._order) + self._order[place[rows]]
            exchanged[rows] = self._around.carry_over(x[rows], near, stands_in)
        return exchanged, place

    @property
    def _by_content(self) -> dict[bytes, tuple[int, int]]:
        if self._keys is None:
            self._keys = {
                key: (way, row)
                for way, records in enumerate(self._ways)
                for row, key in enumerate(record_keys(records.x))
            }
        return self._keys

    def _carry_over(
        self, answers: Float[np.ndarray, "records classes"], place: CandidatePositions
    ) -> Float[np.ndarray, "records classes"]:
        """The answers as if about the first candidates: true classes swapped, or values moved.

        They are changed in place: nobody else may hold them.
        """
        rows = np.flatnonzero(place != _UNKNOWN)
        mine, theirs = self._y[place[rows]], self._y[self._order[place[rows]]]
        if self._ways[0].regression:
            answers[rows, 0] += mine - theirs
            return answers
        true = answers[rows, theirs]
        answers[rows, theirs], answers[rows, mine] = answers[rows, mine], true
        return answers
