"""Does the model object itself hold training records? No attack is needed to read these."""

import numpy as np
from jaxtyping import Bool, Shaped

from divulge.core import Check, Target, Verdict
from divulge.errors import TargetError
from divulge.targets.model_contents import SMALL, ModelContents, look_into

ROWS, LEAVES = "records in the model", "leaves of the model"
"""Names of the checks."""


def check_contents(
    target: Target,
    x: Shaped[np.ndarray, "records *features"],
    member: Bool[np.ndarray, " records"],
) -> tuple[Check, ...]:
    """What the model object holds; nothing where it holds no record and has no leaves.

    A lone tree with a leaf of one record is that record's path and class. In many trees a leaf of
    one record says less of it, so it is told and is no warning.

    Args:
        target: the model.
        x: the candidates.
        member: who of them was trained on.
    """
    try:
        seen = look_into(target, x, member)
    except (TargetError, ValueError) as error:
        text = f"What the model object holds could not be read: {error}"
        return (Check(ROWS, Verdict.NOT_APPLICABLE, text),)
    if seen is None:
        return ()
    found = []
    if seen.members:
        found.append(Check(ROWS, Verdict.WARNING, _describe_rows(seen, int(member.sum()))))
    if seen.leaves:
        lone = seen.trees == 1 and seen.single > 0
        verdict = Verdict.WARNING if lone else Verdict.PASS
        found.append(Check(LEAVES, verdict, _describe_leaves(seen)))
    return tuple(found)


def _describe_rows(seen: ModelContents, members: int) -> str:
    chance = f" (so do {seen.nonmembers:,} non-members, by chance)" if seen.nonmembers else ""
    return (
        f"This model contains {seen.members:,} of its {members:,} training records{chance}: they "
        f"stand, as the model sees them, in {seen.rows:,} rows of the object. Whoever gets the "
        "model can read them without an attack; whoever can only query it cannot. Do not hand it "
        "out, or train a kind of model that keeps no records."
    )


def _describe_leaves(seen: ModelContents) -> str:
    trees = "1 tree" if seen.trees == 1 else f"{seen.trees:,} trees"
    pure = f" In {seen.pure:,} leaves one class alone was seen." if seen.pure else ""
    advice = ""
    if seen.single and seen.trees == 1:
        advice = (
            " Whoever gets the tree reads the conditions and the answer of such a record. Train "
            f"it with leaves of {SMALL} records or more."
        )
    return (
        f"Of {seen.leaves:,} leaves in {trees}, {seen.small:,} were made from fewer than {SMALL} "
        f"training records, and {seen.single:,} from one.{pure}{advice}"
    )
