"""Cache a model's predictions, so that no record is asked about twice and no answer is lost.

Predictions are stored in an SQLite file; records are recognised by their content.
"""

import hashlib
from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Generic, TypeVar, final

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.core import Need, Target, stream_answers
from divulge.core.tokens import Tokens, as_token_target, stream_tokens
from divulge.errors import SpecError, TargetError
from divulge.targets.look_through import LookThrough
from divulge.targets.prediction_file import ANY_LENGTH, PredictionFile
from divulge.targets.token_packing import pack_tokens, unpack_tokens


def record_keys(x: Shaped[np.ndarray, " records *features"], salt: bytes = b"") -> list[bytes]:
    """One 16-byte hash per record, of its type, shape and bytes.

    Examples:
        >>> one, two, same = record_keys(np.array([1.0, 2.0, 1.0]))
        >>> one == same, one == two
        (True, False)
    """
    start = hashlib.blake2b(f"{x.dtype.str}{x.shape[1:]}".encode(), digest_size=16, key=salt)
    content = memoryview(x.tobytes())
    width = len(content) // max(1, len(x))
    keys = []
    for row in range(len(x)):
        state = start.copy()
        state.update(content[row * width : (row + 1) * width])
        keys.append(state.digest())
    return keys


def holds_answers(offers: Need) -> bool:
    """Whether a target that offers this is a table of answers of a classifier."""
    return Need.HARD_LABELS in offers and Need.FEATURES not in offers


T = TypeVar("T")

_RECENT_ARRAYS = (
    10  # arrays recognised without hashing: candidates, these seen otherwise, reference ones
)


@final
class RecentAnswers(Generic[T]):
    """Answers about the arrays that were asked about last, recognised without hashing.

    Only arrays that cannot be written to are remembered: what an array holds might change.

    Args:
        most: about how many arrays.
    """

    __slots__ = ("_held", "_most")  # a memory is no part of what an attack is given

    def __init__(self, most: int = _RECENT_ARRAYS) -> None:
        self._held: dict[int, tuple[np.ndarray, T]] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._held)

    def find(self, x: np.ndarray) -> T | None:
        """The answers about this array; None where they are not known."""
        # An id stands for its object only while that is alive, hence the object beside the answers.
        array, answers = self._held.get(id(x), (None, None))
        return answers if array is x else None

    def remember(self, x: np.ndarray, answers: T) -> T:
        """Keep answers about an array, and return them; an array of them is then read-only."""
        if isinstance(answers, np.ndarray):
            answers.flags.writeable = False  # nobody can change what others will be told
        if not x.flags.writeable:
            self._held[id(x)] = (x, answers)
            if len(self._held) > self._most:
                del self._held[next(iter(self._held))]
        return answers


@final
class CachedTarget(LookThrough):
    """A target that never asks the inner one about the same record content again.

    Args:
        target: the target to ask.
        path: an SQLite file for the answers; in memory only, unless given. Each batch, and each
            part that a `divulge.core.StreamingTarget` answers, is on disk before the next is asked,
            so an interruption or a spent budget loses none.
            Of a target without features none are stored: these are a table of answers. Of a
            language model what it says of each token is stored.
        fingerprint: the fingerprint of the model, so that no other model's answers are taken for
            its own.
        batch_size: how many records to ask before saving.
        salt: tells second answers to the same records from the first ones, in the same file.
        accept: is called with the answers of each batch before they are kept; may raise.

    Raises:
        StoreError: the file is damaged or belongs to another model.
        SpecError: the batch size is not positive.
    """

    def __init__(
        self,
        target: Target,
        path: str | Path | None = None,
        fingerprint: str = "",
        batch_size: int = 1024,
        salt: bytes = b"",
        accept: Callable[[Float[np.ndarray, "records classes"]], None] = lambda _: None,
    ) -> None:
        if batch_size < 1:
            raise SpecError(f"expected a batch size of 1 or more, got {batch_size}: pass a larger")
        self._target = target
        self._batch_size = batch_size
        self._salt = salt
        self._accept = accept
        stored = path is not None and Need.FEATURES in target.offers
        self._file = PredictionFile(Path(path), fingerprint) if path and stored else None
        self._known = {} if self._file is None else self._file.read()
        self._classes = None if self._file is None else self._file.classes
        self._recent = RecentAnswers[np.ndarray]()
        self._recent_tokens = RecentAnswers[Tokens](most=1)

    @property
    def offers(self) -> Need:
        """What the answers allow."""
        return self._target.offers

    def predict(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Float[np.ndarray, "records classes"]:
        """The inner target's probabilities, read-only.

        Raises:
            BudgetSpent: the inner target may not be asked further; what it answered is kept.
            TargetError: the inner target failed; what it answered before is kept.
            StoreError: an answer cannot be saved.
        """
        known = self._recent.find(x)
        if known is not None:
            return known
        if len(x) == 0:
            return self._target.predict(x)
        if self._keeps_tokens:
            tokens = self.tokens(x)
            return self._recent.remember(x, tokens.average(tokens.logprob)[:, None])
        if Need.FEATURES not in self.offers:  # a table, which holds all answers already
            direct = self._target.predict(x)
            self._accept(direct)
            return self._recent.remember(x, direct)
        keys = record_keys(x, self._salt)
        self._ask(x, keys)
        answers = np.frombuffer(b"".join([self._known[key] for key in keys])).reshape(len(x), -1)
        return self._recent.remember(x, answers)

    def stream(
        self, x: Shaped[np.ndarray, " records *features"]
    ) -> Generator[tuple[Int[np.ndarray, " part"], Float[np.ndarray, "part classes"]], None, None]:
        """The same by parts, of a table of answers, which keeps these itself; else all at once.

        Raises:
            TargetError: see `predict`, as for the other errors.
        """
        if holds_answers(self.offers):
            yield from stream_answers(self._target, x)
        else:
            yield np.arange(len(x)), self.predict(x)

    @property
    def _keeps_tokens(self) -> bool:
        """Whether what is kept of an answer is what it says of each token."""
        return Need.TOKENS | Need.FEATURES in self.offers

    def tokens(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> Tokens:
        """What the inner target says of the tokens of texts; no text is asked about twice.

        Raises:
            NotApplicable: the inner target is no language model.
        """
        known = self._recent_tokens.find(x) if after is None else None
        if known is not None:
            return known
        if not self._keeps_tokens or len(x) == 0:
            tokens = as_token_target(self._target).tokens(x, after)
        else:
            before = b"" if after is None else b"".join(record_keys(after))
            salt = self._salt + (
                hashlib.blake2b(before, digest_size=16).digest() if before else b""
            )
            keys = record_keys(x, salt)
            self._ask(x, keys, after)
            tokens = unpack_tokens([self._known[key] for key in keys])
        return tokens if after is not None else self._recent_tokens.remember(x, tokens)

    def _ask(
        self,
        x: Shaped[np.ndarray, " records *features"],
        keys: list[bytes],
        after: Shaped[np.ndarray, " others *features"] | None = None,
    ) -> None:
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        rows = list(new.values())
        for start in range(0, len(rows), self._batch_size):
            batch = rows[start : start + self._batch_size]
            # Closed at once if an answer cannot be kept: no more is asked for, or paid.
            with (
                self._file.many_appends() if self._file else nullcontext(),
                closing(self._stream(x[batch], after)) as parts,
            ):
                for part, answers in parts:
                    self._keep([keys[batch[place]] for place in part], answers)

    def _stream(
        self,
        x: Shaped[np.ndarray, " records *features"],
        after: Shaped[np.ndarray, " others *features"] | None,
    ) -> Generator[tuple[Int[np.ndarray, " part"], Any], None, None]:
        if self._keeps_tokens:
            return stream_tokens(self._target, x, after)
        return stream_answers(self._target, x)

    def _keep(self, keys: list[bytes], answers: Any) -> None:
        """Keep answers, or what is said of tokens, of records with these keys."""
        if isinstance(answers, Tokens):
            packed, columns = pack_tokens(answers), ANY_LENGTH
            shown = answers.average(answers.logprob)[:, None]
        else:
            packed, columns = [answer.tobytes() for answer in answers], answers.shape[1]
            shown = answers
        if self._classes not in (None, columns):
            raise TargetError(
                f"expected answers of {self._classes} columns as before, got {columns}: is this "
                "the same model?"
            )
        self._accept(shown)
        self._classes = columns
        fresh = dict(zip(keys, packed, strict=True))
        if self._file is not None:
            self._file.append(fresh, columns)
        self._known |= fresh
