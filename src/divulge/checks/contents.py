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
        contents = look_into(target, x, member)
    except (TargetError, ValueError) as error:
        text = f"What the model object holds could not be read: {error}"
        return (Check(ROWS, Verdict.NOT_APPLICABLE, text),)
    if contents is None:
        return ()
    checks = []
    if contents.members:
        checks.append(Check(ROWS, Verdict.WARNING, _describe_rows(contents, int(member.sum()))))
    if contents.leaves:
        lone = contents.trees == 1 and contents.single > 0
        verdict = Verdict.WARNING if lone else Verdict.PASS
        checks.append(Check(LEAVES, verdict, _describe_leaves(contents)))
    return tuple(checks)


def _describe_rows(stored: ModelContents, members: int) -> str:
    chance = f" (so do {stored.nonmembers:,} non-members, by chance)" if stored.nonmembers else ""
    return (
        f"This model contains {stored.members:,} of its {members:,} training records{chance}: they "
        f"stand, as the model sees them, in {stored.rows:,} rows of the object. Whoever gets the "
        "model can read them without an attack; whoever can only query it cannot. Do not hand it "
        "out, or train a kind of model that keeps no records."
    )


def _describe_leaves(model: ModelContents) -> str:
    trees = "1 tree" if model.trees == 1 else f"{model.trees:,} trees"
    pure = f" In {model.pure:,} leaves one class alone was seen." if model.pure else ""
    advice = ""
    if model.single and model.trees == 1:
        advice = (
            " Whoever gets the tree reads the conditions and the answer of such a record. Train "
            f"it with leaves of {SMALL} records or more."
        )
    return (
        f"Of {model.leaves:,} leaves in {trees}, {model.small:,} were made from fewer than {SMALL} "
        f"training records, and {model.single:,} from one.{pure}{advice}"
    )
