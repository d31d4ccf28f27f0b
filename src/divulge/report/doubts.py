"""Checks of rows, answers and labels that make the inputs doubtful, and what they are to a verdict.

What they found comes before all other verdicts, a leak too, since no figure means what it says.
Answers that are exactly 0 and 1, or depend on chance, are another matter: a leak that they show is
one, and only what would reassure is taken back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from divulge.core import Check, Verdict
from divulge.report.sentences import Wording

_RENAMED = "members, with classes renamed"
"""The estimate that says which names of the classes would fit."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why inputs are doubtful, in words."""

    check: str
    """Name of the check."""
    clause: str
    """Why, as a clause."""
    headline: str
    means: str
    """What that does to the figures, as a sentence."""
    next_step: str
    text: str = ""
    """What the check found, in a sentence."""

    @property
    def wording(self) -> Wording:
        """The words of the verdict."""
        sentences = (self.text, self.means)
        return Wording("inputs doubtful", f"Inputs doubtful: {self.headline}", sentences)


def find_doubt(checks: Sequence[Check], *, leaks: bool, trained: bool) -> Doubt | None:
    """Find what makes every figure doubtful; None if nothing does.

    Args:
        checks: the checks of the audit.
        leaks: whether an attack that passed its controls shows a leak.
        trained: whether divulge trained the models, on labels that it knows; labels fit then, and a
            model that contradicts them has learned nothing, unless its columns stand in another
            order.
    """
    by_name = {check.name: check for check in checks}
    for doubt in _DOUBTS:
        check = by_name.get(doubt.check)
        if check is None or not _casts_doubt(check, leaks=leaks, trained=trained):
            continue
        if check.verdict is Verdict.WARNING:
            return replace(doubt, text=check.text)
        return replace(doubt, text=f"{check.text.rstrip('.')}, yet attacks see a leak.")
    return None


def find_weak_doubt(checks: Sequence[Check], *, trained: bool) -> Doubt | None:
    """Find what takes back a reassurance, and no leak; None if nothing does.

    Args:
        checks: the checks of the audit.
        trained: whether divulge trained the models, or a privacy guarantee is claimed: noise may
            leave nothing of what was learned.
    """
    texts = {check.name: check.text for check in checks}
    if trained:
        texts.pop(_UNLEARNED.check, None)
    return next((replace(d, text=texts[d.check]) for d in _WEAK if d.check in texts), None)


def _casts_doubt(check: Check, *, leaks: bool, trained: bool) -> bool:
    if check.name in (_LABELS.check, _TRUE_VALUES.check) and trained:
        return _RENAMED in check.estimates
    return leaks or check.verdict is Verdict.WARNING


_NEITHER = "this audit neither shows a leak nor rules one out"

_REPEATS = Doubt(
    "repeated rows",
    "rows repeat",
    "rows repeat",
    f"So {_NEITHER}: with fewer records than it seems, chance explains more.",
    "Look for a join or a concatenation that repeats rows, and keep one of each. If people, images "
    "or films have several records, say whose record each is (groups), and run the audit again.",
)
_TWICE = Doubt(
    "records in two sets",
    "records stand in two sets",
    "records stand in two sets",
    f"So {_NEITHER}: non-members were trained on, or the attacker is told who is none.",
    "Draw sets that share no record, also not rounded, resized or otherwise changed, and run the "
    "audit again.",
)
_EQUAL = Doubt(
    "equal answers",
    "all answers are equal",
    "all answers are equal",
    f"So {_NEITHER}: equal answers tell nothing of a record.",
    "Check that the model gets the records, with its weights loaded and its features prepared as "
    "in training, and that each record has an answer of its own; then run the audit again.",
)
_LABELS = Doubt(
    "fit of labels",
    "accuracy on members contradicts the labels",
    "the labels do not fit the answers",
    f"So {_NEITHER}: attacks read the answer to the true class.",
    "Check that labels are numbered as the model numbers its classes (class_names, the order of "
    "the columns), and that each is matched with the answer to its own record. If they are right, "
    "the model has not learned its members, or has unlearned them.",
)
_TRUE_VALUES = Doubt(
    "fit of true values",
    "the true values do not fit the answers",
    "the true values do not fit the answers",
    f"So {_NEITHER}: attacks read how far an answer is from the true value.",
    "Check that true values and answers have one unit and one zero (scaled, as a logarithm), and "
    "that each is matched with the answer to its own record. If they are right, the model has not "
    "learned its members.",
)
_DOUBTS = (_EQUAL, _REPEATS, _TWICE, _LABELS, _TRUE_VALUES)
_CERTAIN = Doubt(
    "answers of 0 and 1",
    "most answers are exactly 0 and 1",
    "most answers are exactly 0 and 1",
    f"So {_NEITHER}: no attack can rank what is certain.",
    'If these are classes, say so with output = "labels"; else give probabilities that are not '
    "rounded, or logits, and run the audit again.",
)
_ENDLESS = Doubt(
    "infinite numbers",
    "most records have no finite number",
    "most records have no finite number",
    f"So {_NEITHER}: no attack can rank records whose numbers are equal.",
    "Compute the numbers in float64 and from logits, where they stay finite, and run the audit "
    "again.",
)
_CHANCE = Doubt(
    "answers by chance",
    "answers depend on chance",
    "answers depend on chance",
    f"So {_NEITHER}: who asks often averages chance away, and this audit asked once.",
    "Switch off dropout and batch statistics (model.eval() in PyTorch), or fix the seed of the "
    "answers; if they are meant to change, audit the mean of many. Then run the audit again.",
)
_UNLEARNED = Doubt(
    "nothing learned",
    "the model knows nothing of its training records",
    "the model knows nothing of its training records",
    f"So {_NEITHER}: a model that gets records in another form than in training says as little.",
    "Check that the weights are those of the trained model, and that records are prepared as in "
    "training (order of features, scale, layout), and run the audit again. If all is right, the "
    "model has not learned.",
)
_WEAK = (_CERTAIN, _ENDLESS, _CHANCE, _UNLEARNED)
