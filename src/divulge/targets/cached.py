"""Remembering answers: no record is asked about twice, and nothing paid for is lost."""

from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float, Int, Shaped

from divulge.core import LastLayer, Need, Target, opened
from divulge.errors import SpecError, TargetError
from divulge.targets.answer_file import AnswerFile
from divulge.targets.rows import row_keys

_RECENT = 10  # arrays recognised without hashing: candidates, these seen otherwise, reference ones


@final
class Cached:
    """A target that never asks the inner one about the same record content again.

    Args:
        target: the target to ask.
        path: an SQLite file for the answers; in memory only, unless given. Each batch is on disk
            before the next is asked, so an interruption or a spent budget loses none.
        fingerprint: of the model, so that no other model's answers are taken for its own.
        batch_size: how many records to ask before saving.
        salt: tells second answers to the same records from the first ones, in the same file.

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
    ) -> None:
        if batch_size < 1:
            raise SpecError(f"expected a batch size of 1 or more, got {batch_size}: pass a larger")
        self._target = target
        self._batch_size = batch_size
        self._salt = salt
        self._file = None if path is None else AnswerFile(Path(path), fingerprint)
        self._known = {} if self._file is None else self._file.read()
        self._classes = None if self._file is None else self._file.classes
        self._recent: dict[int, tuple[np.ndarray, np.ndarray]] = {}

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
        # An id stands for its object only while that is alive, hence the object beside the answers.
        if id(x) in self._recent:
            return self._recent[id(x)][1]
        if len(x) == 0:
            return self._target.predict(x)
        keys = row_keys(x, self._salt)
        self._ask(x, keys)
        # Read-only as it comes out of the bytes: nobody can change what others will be told.
        answers = np.frombuffer(b"".join([self._known[key] for key in keys])).reshape(len(x), -1)
        if not x.flags.writeable:
            self._recent[id(x)] = (x, answers)
            if len(self._recent) > _RECENT:
                del self._recent[next(iter(self._recent))]
        return answers

    def gradient(
        self, x: Shaped[np.ndarray, "records *features"], y: Int[np.ndarray, " records"]
    ) -> Float[np.ndarray, "records *features"]:
        """The inner target's gradients, which are not kept.

        Raises:
            NotApplicable: the inner target cannot be looked into.
        """
        return opened(self._target).gradient(x, y)

    def last_layer(self, x: Shaped[np.ndarray, "records *features"]) -> LastLayer:
        """The inner target's last layer, which is not kept.

        Raises:
            NotApplicable: the inner target cannot be looked into.
        """
        return opened(self._target).last_layer(x)

    def _ask(self, x: Shaped[np.ndarray, " records *features"], keys: list[bytes]) -> None:
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        rows = list(new.values())
        for start in range(0, len(rows), self._batch_size):
            batch = rows[start : start + self._batch_size]
            answers = self._target.predict(x[batch])
            if self._classes not in (None, answers.shape[1]):
                raise TargetError(
                    f"expected answers about {self._classes} classes as before, got "
                    f"{answers.shape[1]}: is this the same model?"
                )
            self._classes = answers.shape[1]
            fresh = {
                keys[row]: answer.tobytes() for row, answer in zip(batch, answers, strict=True)
            }
            if self._file is not None:
                self._file.append(fresh, answers.shape[1])
            self._known |= fresh
