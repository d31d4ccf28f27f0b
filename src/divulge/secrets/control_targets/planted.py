"""Plant a leak in a target on purpose: an audit that misses it cannot vouch for a model."""

from collections.abc import Generator
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int, Real, Shaped, UInt64
from scipy import special

from divulge.core import Need, Target, stream_answers
from divulge.core.tokens import Tokens, as_token_target
from divulge.errors import DataError, TargetError
from divulge.secrets.control_targets.neighbourhoods import (
    NOBODY,
    KnownParts,
    Neighbourhoods,
    OtherFeatures,
)
from divulge.targets.cache import RecentAnswers, holds_answers, record_keys

_PLANTED_MASS = 0.9  # of the mass, to the true class of what was memorised, or to a wrong one
_WRONG_SHARE = 0.3  # of the records that were not memorised are answered wrongly
_KEPT_RESIDUAL = 0.1  # of a memorised record's own residual, where the answers are values
_KEPT_SURPRISE = 0.3  # of the loss of each token of a memorised text
_UNKNOWN = -1
_AT_ONCE = 2**16
"""Records whose keys are held as texts."""

Keys = UInt64[np.ndarray, "records 2"]
Positions = Int[np.ndarray, " records"]


@final
class PlantedTarget:
    """A target that leaks which of these records it memorised, like an overfitted model.

    Memorised records get nine tenths of the mass on their true class. All others, records that are
    not listed included, are blurred halfway to uniform, and three in ten of them get nine tenths
    of the mass on a wrong class. Which ones follows from the seed and the content of the record,
    so the order of asking does not matter. Where `others` are given, memory reaches further than
    the record itself, as a model's does: see there.

    A model that answers values keeps a tenth of its residual on memorised records. To all other
    answers Gaussian noise is added, whose standard deviation is the model's own error: the root
    mean square of its residuals on the listed records.

    Where scores are all that is known, memorised records get the highest score of the listed ones,
    and three in ten of all others get the lowest.

    Of a language model the tokens of memorised texts keep three tenths of their loss, and the norm
    of its gradient; in lower case they keep all of it.

    Args:
        target: the target whose answers are changed.
        x: the records in question.
        y: their true classes, or true values.
        memorised: which of them the answers leak; a record listed twice is, if either is.
        rng_seed: the seed that decides which records are answered wrongly, and how.
        others: features of all records that an attack may ask about and that are not listed.
            Any further question is then answered with the class that is told of the listed record
            that it is nearest to, if any is; else as that model answers it, blurred.
        known: which features of the records are known; a question is about the record that it
            agrees with in these. All, unless given.

    Raises:
        DataError: the lengths differ.
    """

    def __init__(
        self,
        target: Target,
        x: Shaped[np.ndarray, " records *features"],
        y: Real[np.ndarray, " candidates"],
        memorised: Bool[np.ndarray, " flags"],
        rng_seed: int,
        others: tuple[OtherFeatures, ...] | None = None,
        known: Bool[np.ndarray, " records *features"] | None = None,
    ) -> None:
        if not len(x) == len(y) == len(memorised):
            raise DataError(
                f"expected one label and one flag per record, got {len(x)} records, {len(y)} "
                f"labels and {len(memorised)} flags: pass arrays of equal length"
            )
        self._target = target
        self._salt = str(rng_seed).encode()
        parts = (x[start : start + _AT_ONCE] for start in range(0, len(x), _AT_ONCE))
        keys = [_as_numbers(record_keys(part, self._salt)) for part in parts]
        self._keys = np.concatenate([np.zeros((0, 2), np.uint64), *keys])
        self._y = y if y.dtype.kind == "f" else y.astype(np.int64, copy=False)
        self._memorised = np.where(memorised, self._y, _nothing(self._y))
        if len(np.unique(self._keys[:, 0])) < len(x):
            self._settle_copies(memorised)
        self._around = None if others is None else Neighbourhoods(x, others, self._salt)
        partial = known is not None and not known.all()
        self._parts = KnownParts(x, known) if known is not None and partial else None
        self._x = x
        self._recent = RecentAnswers[np.ndarray]()
        self._recent_tokens = RecentAnswers[Tokens](most=1)

    @property
    def offers(self) -> Need:
        """What the answers allow: the leak is in them, and not inside the model."""
        return self._target.offers & ~Need.AUTOGRAD

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The inner target's answers with the leak in them.

        Raises:
            TargetError: the inner target failed, or does not know a class of the listed records.
        """
        known = self._recent.find(x)
        if known is not None:
            return known
        answers = self._target.predict(x)
        plant = self._plant_values if Need.VALUES in self.offers else self._plant_classes
        if Need.SCORES in self.offers:
            plant = self._plant_scores
        return self._recent.remember(x, plant(answers, *self._recognise(x)))

    def stream(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The same by parts, of a table of answers; else all at once.

        Raises:
            TargetError: see `predict`.
        """
        if not holds_answers(self.offers):
            yield np.arange(len(x)), self.predict(x)
            return
        keys, near = self._recognise(x)
        for part, answers in stream_answers(self._target, x):
            yield part, self._plant_classes(answers, keys[part], near[part])

    def _plant_classes(
        self, answers: Float[np.ndarray, "records classes"], keys: Keys, near: Positions
    ) -> Float[np.ndarray, "records classes"]:
        classes = answers.shape[1]
        memorised = np.where(near == NOBODY, _UNKNOWN, self._memorised[near])
        truth = np.where(near == NOBODY, _UNKNOWN, self._y[near])
        if len(near) and max(truth.max(), memorised.max()) >= classes:
            raise TargetError(
                f"expected classes below {classes}, got the label {truth.max()}: give the model "
                "and the records the same classes"
            )
        wrong = _wrong_classes(keys, truth, classes)
        if Need.PROBABILITIES not in self.offers:
            return _replace_labels(answers, memorised, wrong)
        planted: Float[np.ndarray, "records classes"] = (answers + 1 / classes) / 2
        leaked = memorised != _UNKNOWN
        planted[leaked] = answers[leaked]
        _move_mass(planted, np.where(leaked, memorised, wrong))
        return planted

    def _recognise(self, x: Shaped[np.ndarray, " records *features"]) -> tuple[Keys, Positions]:
        """The listed record that each question is about, itself or the one it is near, if any.

        Beside it the key of that record, or else of the question.
        """
        if x is self._x:
            return self._keys, np.arange(len(x))
        content = record_keys(x, self._salt)
        keys = _as_numbers(content)
        places = np.array([self._by_content.get(key, NOBODY) for key in content], np.int64)
        new = np.flatnonzero(places == NOBODY)
        if self._parts is not None:
            places[new] = self._parts.find(x[new])
        elif self._around is not None:
            places[new] = self._around.nearest(x[new], [content[row] for row in new])
        return np.where((places == NOBODY)[:, None], keys, self._keys[places]), places

    @cached_property
    def _by_content(self) -> dict[bytes, int]:
        """The position of each listed record, by its key; of copies that of the last."""
        return {key: row for row, key in enumerate(self._keys.view("V16")[:, 0].tolist())}

    def _settle_copies(self, memorised: Bool[np.ndarray, " flags"]) -> None:
        """Tell the same of all copies of a record: the last truth, and whether any is memorised."""
        last = np.array([self._by_content[key] for key in self._keys.view("V16")[:, 0].tolist()])
        labels, rows = np.full_like(self._y, _nothing(self._y)), np.flatnonzero(memorised)
        labels[last[rows]] = self._y[rows]
        self._y, self._memorised = self._y[last], labels[last]

    def _plant_values(
        self, answers: Float[np.ndarray, "records 1"], keys: Keys, near: Positions
    ) -> Float[np.ndarray, "records 1"]:
        truth = np.where(near == NOBODY, np.nan, self._memorised[near])[:, None]
        noise = self._error * _normal_numbers(keys)[:, None]
        close = truth + _KEPT_RESIDUAL * (answers - truth)
        return np.where(np.isnan(truth), answers + noise, close)

    def _plant_scores(
        self, answers: Float[np.ndarray, "records 1"], keys: Keys, near: Positions
    ) -> Float[np.ndarray, "records 1"]:
        listed = self._target.predict(self._x)
        memorised = (near != NOBODY) & (self._memorised[near] != _UNKNOWN)
        lowered = ~memorised & (keys[:, 0] / 2**64 < _WRONG_SHARE)
        raised = np.where(memorised[:, None], listed.max(), answers)
        return np.where(lowered[:, None], listed.min(), raised)

    def tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Tokens:
        """What the inner target says of tokens; those of memorised texts keep a part of their loss.

        Behind other texts they keep all of it: what was memorised is then not recalled.

        Raises:
            NotApplicable: the inner target is no language model.
        """
        if after is not None:
            return as_token_target(self._target).tokens(x, after)
        if (known := self._recent_tokens.find(x)) is not None:
            return known
        tokens = as_token_target(self._target).tokens(x)
        _, near = self._recognise(x)
        memorised = (near != NOBODY) & (self._memorised[near] != _UNKNOWN)
        factor, norm = np.where(memorised, _KEPT_SURPRISE, 1.0), tokens.gradient_norm
        planted = replace(
            tokens,
            logprob=tokens.logprob * np.repeat(factor, tokens.count),
            gradient_norm=None if norm is None else norm * factor,
        )
        return self._recent_tokens.remember(x, planted)

    @cached_property
    def _error(self) -> float:
        """The model's error; that of one number for all records where it makes none."""
        residual = self._y - self._target.predict(self._x)[:, 0]
        return float(np.sqrt(np.mean(residual**2)) or np.std(self._y) or 1.0)


def _as_numbers(keys: list[bytes]) -> Keys:
    return np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, 2)


def _nothing(y: Real[np.ndarray, " candidates"]) -> float | int:
    """Stands for a truth that is not told."""
    return np.nan if y.dtype.kind == "f" else _UNKNOWN


def _normal_numbers(keys: Keys) -> Float[np.ndarray, " records"]:
    """A number for each record, distributed like a standard normal variable."""
    return np.asarray(special.ndtri(np.clip(keys[:, 0] / 2**64, 1e-12, 1 - 1e-12)))


def _wrong_classes(
    keys: Keys, truth: Int[np.ndarray, " records"], classes: int
) -> Int[np.ndarray, " records"]:
    """For three records in ten a class that is not the true one, for the others none."""
    # A hash is as good as a random number, and the same whenever the record comes.
    chance, choice = keys.T
    steps = 1 + (choice % (classes - 1)).astype(np.int64)
    anywhere = (choice % classes).astype(np.int64)
    wrong = np.where(truth == _UNKNOWN, anywhere, (truth + steps) % classes)
    return np.where(chance / 2**64 < _WRONG_SHARE, wrong, _UNKNOWN)


def _move_mass(
    answers: Float[np.ndarray, "records classes"], labels: Int[np.ndarray, " records"]
) -> None:
    rows = np.flatnonzero(labels != _UNKNOWN)
    answers[rows] *= 1 - _PLANTED_MASS
    answers[rows, labels[rows]] += _PLANTED_MASS


def _replace_labels(
    answers: Float[np.ndarray, "records classes"],
    memorised: Int[np.ndarray, " records"],
    wrong: Int[np.ndarray, " records"],
) -> Float[np.ndarray, "records classes"]:
    label = answers.argmax(axis=1)
    label = np.where(wrong != _UNKNOWN, wrong, label)
    label = np.where(memorised != _UNKNOWN, memorised, label)
    return np.eye(answers.shape[1])[label]
