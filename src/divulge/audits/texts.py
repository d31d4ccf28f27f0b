"""What is measured of texts besides membership: completions, and the members as one collection."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int

from divulge._util.extras import stats
from divulge._util.random import stream
from divulge.attacks.shared.token_signals import all_signals
from divulge.core import ModelView, Need
from divulge.core.findings import CollectionTest, TextFacts
from divulge.core.tokens import as_token_target
from divulge.metrics import people
from divulge.metrics.extraction import CHANCE, measure_completions

FEWEST = 20
"""Members, and non-members, below which no collection is tested."""

RIDGE = 1.0
"""What is added to the sums of squares of standardised columns."""

CLIPPED = 3.0
"""Standard deviations beyond which a signal is cut: outliers would be all that is learned."""

Columns = Float64[np.ndarray, "texts columns"]


@dataclass(frozen=True, slots=True)
class Completion:
    """Which part of a text is given, and which has to be completed verbatim."""

    prefix: int = 50
    """How many tokens of a text are given."""
    suffix: int = 50
    """How many further ones make up the completion."""


USUAL = Completion()
"""What the literature asks for."""


def measure_texts(
    view: ModelView, member: Bool[np.ndarray, " texts"], completion: Completion, seed: int
) -> TextFacts | None:
    """Completions, and data-set inference; None where the target is no language model.

    Args:
        view: the attacker's, with the candidates.
        member: which texts were trained on.
        completion: what is completed.
        seed: of the audit.
    """
    if Need.TOKENS not in view.target.offers:
        return None
    records, person = view.records, view.records.people
    tokens = as_token_target(view.target).tokens(records.x)
    done, long = measure_completions(tokens, member, completion.prefix, completion.suffix, person)
    known = records.features if records.encoding is not None else None
    collection = infer_collection(all_signals(tokens), member, person, seed, known)
    return TextFacts(
        int(tokens.start[-1]), completion.prefix, completion.suffix, CHANCE, long, done, collection
    )


def infer_collection(
    signals: Columns,
    member: Bool[np.ndarray, " texts"],
    person: Int[np.ndarray, " texts"] | None,
    seed: int,
    describe: Callable[[], Columns] | None = None,
) -> CollectionTest | None:
    """Whether the members, as a whole, score above non-members; None with too few of either.

    A linear score is learned from one half of the texts, and the other half is compared by it in a
    one-sided Welch test. The blind p-value is that of a score learned in the same way, on the same
    halves, from what is known of the texts without the model.

    Args:
        signals: of each text, one column each.
        member: which texts were trained on.
        person: whose text each is: people are then in one half, and compared by their means.
        seed: of the audit.
        describe: gives what is known of the texts without the model, if anything is.

    References:
        Maini et al. (2024), LLM dataset inference: did you train on my dataset?, section 5.
        Departures: ridge regression, and one split, so that no p-values have to be combined.
    """
    whose = np.arange(len(member)) if person is None else person
    drawn = people.first_of_each(member, whose)
    if min(drawn.sum(), (~drawn).sum()) < 2 * FEWEST:
        return None
    rng = stream(seed, "collection")
    half = np.zeros(len(drawn), bool)
    for side in (drawn, ~drawn):  # as many of each in both halves
        half[rng.permutation(np.flatnonzero(side))[: int(side.sum()) // 2]] = True
    learned = half[whose]

    def test(columns: Columns) -> float:
        score = _learn(columns, member, learned)
        each = people.combine(score, whose, "mean")[~half]
        inside, outside = each[drawn[~half]], each[~drawn[~half]]
        if each.max() == each.min():
            return 1.0
        welch = stats.ttest_ind(inside, outside, equal_var=False, alternative="greater")
        return float(welch.pvalue)

    blind = None if describe is None else test(describe())
    return CollectionTest(test(signals), int(learned.sum()), int((~learned).sum()), blind)


def _learn(
    columns: Columns, member: Bool[np.ndarray, " texts"], learned: Bool[np.ndarray, " texts"]
) -> Float64[np.ndarray, " texts"]:
    """The scores of all texts by a ridge regression on some of them."""
    taught = columns[learned]
    spread = taught.std(axis=0)
    scaled = (columns - taught.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    scaled = np.clip(scaled, -CLIPPED, CLIPPED)
    x, y = scaled[learned], member[learned] - member[learned].mean()
    weight = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)
    return np.asarray(scaled @ weight)
